"""A recipe made out: what every part has, what is taken of it, and the folder that says so.

Writes `mixture.json` (read by `corpusflow.feed.open_mixture`), a file of document numbers for every part that is not a whole
export, and `train.blend.txt` for Megatron-LM's ``--data-args-path`` where all parts are whole Megatron exports. The same
recipe over the same exports gives the same bytes.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpusflow.api import Run, open_run
from corpusflow.errors import ConfigError
from corpusflow.feed.dataset import TokenDataset
from corpusflow.feed.files import TokenFiles
from corpusflow.feed.mixture_file import FORMAT, MIXTURE, sha256_of
from corpusflow.feed.selection import SelectedTokens
from corpusflow.mix.groups import documents_by
from corpusflow.mix.recipe import PartRecipe, Recipe
from corpusflow.mix.shares import Demand, divide, tempered
from corpusflow.publish import MANIFEST, export_folder
from corpusflow.storage import local_path, storage_for

_READABLE: Final = ("megatron", "bin")


@dataclass(frozen=True)
class Part:
    """A whole export's split, or some documents of it.

    Attributes:
        documents: their numbers in the split, int64; None for all.
        sequences: what is taken; more than there are means repetition.
    """

    name: str
    recipe: PartRecipe
    value: str | None
    files: TokenFiles
    documents: np.ndarray | None
    size: int
    sequences: int = 0

    @property
    def epochs(self) -> float:
        """How often it is gone through."""
        return self.sequences / self.size


@dataclass(frozen=True)
class Mix:
    """A recipe, made out.

    Attributes:
        left_out: (name, tokens) of groups that are shorter than a sequence, and of parts whose share is less than one.
    """

    recipe: Recipe
    parts: tuple[Part, ...]
    left_out: tuple[tuple[str, int], ...]

    @property
    def sequences(self) -> int:
        """Of the whole."""
        return sum(p.sequences for p in self.parts)

    def as_data(self) -> dict[str, Any]:
        """What is taken from where, as JSON."""
        total = self.sequences
        return {
            "name": self.recipe.name,
            "length": self.recipe.length,
            "sequences": total,
            "tokens": total * self.recipe.length,
            "parts": [
                {
                    "name": p.name,
                    "available_tokens": len(p.files),
                    "available_sequences": p.size,
                    "sequences": p.sequences,
                    "tokens": p.sequences * self.recipe.length,
                    "share": p.sequences / total,
                    "epochs": p.epochs,
                }
                for p in self.parts
            ],
            "left_out": [{"name": n, "tokens": t} for n, t in self.left_out],
        }


def make(recipe: Recipe) -> Mix:
    """Open the runs and divide the budget; writes nothing.

    Raises:
        ConfigError: a run has no such export, tokenizers differ, or the budget cannot be met.
    """
    parts: list[Part] = []
    left_out: list[tuple[str, int]] = []
    for one in recipe.parts:
        run = open_run(one.run)
        files = TokenFiles(_folder(run, one), one.split)
        groups = {None: None} if one.by is None else documents_by(run, files, one.by)
        for value, documents in groups.items():
            name = one.name if value is None else f"{one.name}.{value}"
            own = files if documents is None else SelectedTokens(files.folder, one.split, documents)
            if len(own) <= recipe.length:
                left_out.append((name, len(own)))
                continue
            parts.append(Part(name, one, value, own, documents, len(TokenDataset(own, recipe.length))))
        if not any(p.recipe is one for p in parts):
            raise ConfigError(
                f"{one.name} has fewer tokens than one sequence of {recipe.length}", hint="a smaller length"
            )
    _one_tokenizer(parts)
    taken = divide(_demands(recipe, parts), None if recipe.tokens is None else recipe.tokens // recipe.length)
    made = [Part(p.name, p.recipe, p.value, p.files, p.documents, p.size, n) for p, n in zip(parts, taken, strict=True)]
    left_out += [(p.name, len(p.files)) for p in made if not p.sequences]
    if not any(taken):
        asked = "what the parts are to give" if recipe.tokens is None else f"a budget of {recipe.tokens:,} tokens"
        raise ConfigError(
            f"{asked} is less than one sequence of {recipe.length}",
            hint="more tokens, or a higher max_epochs or epochs",
        )
    return Mix(recipe, tuple(p for p in made if p.sequences), tuple(left_out))


def _folder(run: Run, part: PartRecipe) -> str:
    folders = {os.path.basename(f): f for n in run.plan.nodes if n.kind == "sink" for f in [export_folder(run.plan, n)]}
    names = [part.export] if part.export else [n for n in folders if n.partition("-")[0] in _READABLE]
    if not names or names[0] not in folders:
        raise ConfigError(
            f"{part.run} has no export {part.export or 'of tokens that the feed reads'}",
            hint=f"it has {', '.join(folders) or 'none'}; the feed reads export.{' and export.'.join(_READABLE)}",
        )
    return folders[names[0]]


def _one_tokenizer(parts: list[Part]) -> None:
    """Sequences of different tokenizers in one mixture mean nothing to a model."""
    seen: dict[Any, str] = {}
    for part in parts:
        seen.setdefault(part.files.tokenizer.get("tokenizer_sha256"), part.name)
    if len(seen) > 1:
        (_, a), (_, b), *_ = seen.items()
        raise ConfigError(f"{a} and {b} were made with different tokenizers", hint="tokenize both runs with one model")


def _demands(recipe: Recipe, parts: list[Part]) -> list[Demand]:
    """What is wanted of each part, groups by their sizes within their part."""
    by_recipe = {r.name: [p for p in parts if p.recipe is r] for r in recipe.parts}
    open_ = [r for r in recipe.parts if r.tokens is None and r.epochs is None]
    natural = tempered([sum(p.size for p in by_recipe[r.name]) for r in open_], recipe.temperature) if open_ else []
    weights = {r.name: w if r.weight is None else r.weight for r, w in zip(open_, natural, strict=True)}
    demands = []
    for r in recipe.parts:
        mine = by_recipe[r.name]
        within = tempered([p.size for p in mine], r.temperature)
        limit = r.max_epochs if r.max_epochs is not None else recipe.max_epochs
        wanted = _fixed(r, mine, within, recipe.length)
        for part, share, fixed in zip(mine, within, wanted, strict=True):
            most = None if limit is None else limit * part.size
            demands.append(Demand(part.name, part.size, weights.get(r.name, 0.0) * share, fixed, most))
    return demands


def _fixed(recipe: PartRecipe, parts: list[Part], within: list[float], length: int) -> list[int | None]:
    if recipe.epochs is not None:
        return [round(recipe.epochs * p.size) for p in parts]
    if recipe.tokens is None:
        return [None] * len(parts)
    whole = [Demand(p.name, p.size, share) for p, share in zip(parts, within, strict=True)]
    return [*divide(whole, recipe.tokens // length)]


def write(mix: Mix) -> str:
    """Write the mixture's folder; returns it. `mixture.json` comes last."""
    folder = local_path(mix.recipe.output)
    storage = storage_for(folder)
    taken = {p["name"]: p for p in mix.as_data()["parts"]}
    listed = []
    for i, part in enumerate(mix.parts):
        entry: dict[str, Any] = {
            **taken[part.name],
            "export": os.path.relpath(part.files.folder, folder),
            "split": part.recipe.split,
            "manifest_sha256": sha256_of(storage.get(f"{part.files.folder}/{MANIFEST}")),
        }
        if part.documents is not None:
            name = f"documents-{i:04d}.parquet"  # never named by what the documents hold
            data = _encoded(part.documents)
            storage.replace(f"{folder}/{name}", data)
            entry |= {"by": part.recipe.by, "value": part.value, "documents": name, "documents_sha256": sha256_of(data)}
        listed.append(entry)
    blend = _blend(mix)
    if blend is None:
        storage.delete(f"{folder}/train.blend.txt")
    else:
        storage.replace(f"{folder}/train.blend.txt", blend.encode())
    body = {"format": FORMAT, "version": 1, **mix.as_data(), "seed": mix.recipe.seed, "parts": listed}
    storage.replace(f"{folder}/{MIXTURE}", (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode())
    return folder


def _encoded(documents: np.ndarray) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"document": pa.array(documents, pa.int64())}), sink, compression="zstd", write_page_checksum=True
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _blend(mix: Mix) -> str | None:
    """Weight (tokens taken) and prefix of each file, on one line; None where some part is not a whole Megatron export."""
    entries = []
    for part in mix.parts:
        manifest = part.files.manifest
        if part.documents is not None or manifest["format"] != "megatron" or part.recipe.split != "train":
            return None
        for file in manifest["files"]:
            if file["split"] == part.recipe.split:
                prefix = os.path.join(part.files.folder, file["parts"]["bin"]["name"].removesuffix(".bin"))
                taken = part.sequences * mix.recipe.length * file["tokens"] / len(part.files)
                entries.append(f"{round(taken)} {prefix}")
    return " ".join(entries) + "\n"
