"""A GPT small enough for a CPU, trained from a run's tokens and resumed in the middle with the very same batches.

    corpusflow run configs/web.yaml
    pip install torch
    python tests/examples/train_tiny_gpt.py runs/web/exports/megatron --steps 60 --stop 30 --checkpoint tiny.pt
    python tests/examples/train_tiny_gpt.py runs/web/exports/megatron --steps 60 --checkpoint tiny.pt

The second call goes on where the first one stopped: the checkpoint holds the model, the optimiser, and the few numbers that are
the loader's state. Read `train`; the model is the usual one and beside the point.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from corpusflow.feed import Loader, TokenDataset

WIDTH, HEADS, LAYERS = 64, 4, 2


class Block(nn.Module):
    """Attention that looks back only, and a two-layer network."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_network = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.keys_queries_values, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.network = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same."""
        batch, length, _ = x.shape
        heads = self.keys_queries_values(self.before_attention(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.network(self.before_network(x))


class TinyGpt(nn.Module):
    """Token and position embeddings, blocks, and the token embedding once more as the output layer."""

    def __init__(self, vocabulary: int, length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, WIDTH), nn.Embedding(length, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Token ids (batch, length) to logits (batch, length, vocabulary)."""
        x = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1]))
        logits: torch.Tensor = self.norm(self.blocks(x)) @ self.tokens.weight.T
        return logits


def train(
    export: str,
    *,
    steps: int,
    stop: int | None = None,
    checkpoint: Path | None = None,
    length: int = 64,
    batch: int = 8,
) -> list[tuple[float, str]]:
    """Train for `steps` steps in all, from a checkpoint if there is one; stop after step `stop` and write one.

    Returns:
        per step, the loss before it and a digest of its batch.
    """
    torch.manual_seed(7)
    data = TokenDataset(export, length)
    loader = Loader(data, batch, seed=7)
    model = TinyGpt(int(data.files.tokenizer["vocabulary_size"]), length)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    done = 0
    if checkpoint is not None and checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        loader.load_state_dict(saved["loader"])
        done = saved["done"]
    history = []
    for step in range(done, steps if stop is None else stop):
        tokens = torch.from_numpy(next(loader)["tokens"])
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        history.append((loss.item(), hashlib.sha256(tokens.numpy().tobytes()).hexdigest()[:16]))
        if step % 10 == 0:
            print(f"step {step}: loss {history[-1][0]:.3f}, batch {history[-1][1]}")
    if stop is not None and checkpoint is not None:
        state = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
        torch.save({**state, "loader": loader.state_dict(), "done": stop}, checkpoint)
    return history


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train a tiny GPT from a run's tokens.")
    parser.add_argument("export", help="runs/web/exports/megatron")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--stop", type=int, help="write a checkpoint after this step and end")
    parser.add_argument("--checkpoint", type=Path)
    given = parser.parse_args()
    train(given.export, steps=given.steps, stop=given.stop, checkpoint=given.checkpoint)
