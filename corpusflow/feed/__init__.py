"""What trainers import: token files of a finished export as sequences, in an order that can be resumed exactly.

    from corpusflow.feed import Loader, TokenDataset

    data = TokenDataset("runs/web/exports/megatron", length=2048)
    loader = Loader(data, batch=8, rank=0, ranks=1, seed=7)
    for step, batch in enumerate(loader):      # {"tokens": int64 (8, 2049), …}
        ...
    state = loader.state_dict()                # resumes at the next sequence, on any number of ranks

numpy alone; `corpusflow.feed.torch` wraps the same order for torch's DataLoader, `corpusflow.feed.ray` for Ray Data and Train.
"""

from corpusflow.feed.dataset import TokenDataset
from corpusflow.feed.files import TokenFiles
from corpusflow.feed.loader import Loader
from corpusflow.feed.mixture import BudgetMixture, Mixture
from corpusflow.feed.mixture_file import open_mixture
from corpusflow.feed.stage import StageTokens

__all__ = ["BudgetMixture", "Loader", "Mixture", "StageTokens", "TokenDataset", "TokenFiles", "open_mixture"]
