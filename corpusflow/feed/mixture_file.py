"""A mixture's folder, as `corpusflow mix` writes it, opened for training."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any, Final

from corpusflow.errors import ConfigError, CorruptShardError
from corpusflow.feed.dataset import Mode, TokenDataset
from corpusflow.feed.files import TokenFiles
from corpusflow.feed.mixture import BudgetMixture
from corpusflow.feed.selection import SelectedTokens
from corpusflow.storage import local_path, parquet_table, read_json, storage_for

FORMAT: Final = "corpusflow.mixture"
MIXTURE: Final = "mixture.json"


def open_mixture(folder: str, *, segments: bool = False, mode: Mode = "concatenate") -> BudgetMixture:
    """The mixture of a folder.

    Args:
        folder: what `corpusflow mix` wrote.
        segments, mode: as for TokenDataset; other modes than "concatenate" have other numbers of sequences than the mixture
            was made out for, so that epochs differ.

    Raises:
        ConfigError: no mixture.
        CorruptShardError: an export, or the choice of its documents, is not what the mixture was made of.
    """
    folder = local_path(folder)
    try:
        body: Mapping[str, Any] = read_json(f"{folder}/{MIXTURE}", hint="corpusflow mix CONFIG  makes it again")
    except (FileNotFoundError, NotADirectoryError) as e:
        raise ConfigError(f"{folder} has no {MIXTURE}", hint="corpusflow mix CONFIG  makes one") from e
    if body.get("format") != FORMAT or body.get("version") != 1:
        raise ConfigError(f"{folder}/{MIXTURE} is no mixture that this version reads")
    parts = {}
    for part in body["parts"]:
        files = _files(folder, part)
        parts[part["name"]] = TokenDataset(files, body["length"], mode=mode, segments=segments), part["sequences"]
    mixture = BudgetMixture(parts)
    mixture.seed = int(body["seed"])
    return mixture


def _files(folder: str, part: Mapping[str, Any]) -> TokenFiles:
    export = os.path.normpath(os.path.join(folder, part["export"]))
    hint = "the run was changed after the mixture was made: corpusflow mix CONFIG  makes it again"
    storage = storage_for(export)
    path = f"{export}/manifest.json"
    try:
        if sha256_of(storage.get(path)) != part["manifest_sha256"]:
            raise CorruptShardError(f"{path} is not what {part['name']} was made of", hint=hint)
        if "documents" not in part:
            return TokenFiles(export, part["split"])
        data = storage.get(f"{folder}/{part['documents']}")
    except (FileNotFoundError, NotADirectoryError) as e:
        raise CorruptShardError(f"{e.filename} of {part['name']} is missing", hint=hint) from e
    if sha256_of(data) != part["documents_sha256"]:
        raise CorruptShardError(f"{folder}/{part['documents']} is damaged", hint="corpusflow mix CONFIG")
    numbers = parquet_table(data).column("document").to_numpy()
    return SelectedTokens(export, part["split"], numbers)


def sha256_of(data: bytes) -> str:
    """In hex."""
    return hashlib.sha256(data).hexdigest()
