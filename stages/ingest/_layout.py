"""Which files of a Hugging Face dataset's folder are its data: by what it says of itself, else by their names.

Knows three layouts: what `save_to_disk` writes (state.json, dataset_dict.json), a hub repository whose README.md names
`data_files` (https://huggingface.co/docs/hub/datasets-manual-configuration), and one that follows the naming rules
(https://huggingface.co/docs/hub/datasets-file-names-and-splits). Patterns come from strangers: they choose among the files
that are there, and are never joined to a path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import yaml

from corpusflow import ConfigError

_README_BYTES: Final = 1 << 20
#: Words in names that say which split a file belongs to.
_KEYWORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
_NUMBERED: Final = re.compile(r"(?:^|/)(\w+(?:[.-]\w+)*?)-\d{5}-of-\d{5}\b")
FORMATS: Final[Mapping[str, str]] = {
    "parquet": "parquet",
    "arrow": "arrow",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "csv": "csv",
    "tsv": "csv",
}


def format_of(name: str) -> str | None:
    """The Source that reads a file, by the end of its name; None for what is no data."""
    name = re.sub(r"\.(gz|zst|bz2|xz)$", "", name.lower())
    return FORMATS.get(name.rpartition(".")[2])


def data_files(names: Sequence[str], read: Callable[[str], bytes], split: str, config: str | None) -> list[str]:
    """The data files of a split.

    Args:
        names: paths below the dataset's folder, sorted.
        read: the bytes of one of them.
        split: train, validation, test, or what the dataset calls it.
        config: which of its configurations (subsets), where there are several.

    Raises:
        ConfigError: it has no such split or configuration, or names files that no Source reads.
    """
    there = frozenset(names)
    if "dataset_dict.json" in there or "state.json" in there:
        return _saved(there, read, split)
    if config is not None and (found := [n for n in names if n.startswith(f"{config}/")]):
        named = None
    else:
        found = [n for n in names if not any(part.startswith(".") for part in n.split("/"))]
        named = _configured(read("README.md"), split, config) if "README.md" in there else None
    if named is not None:
        patterns = [re.compile(_regex(p)) for p in named]
        chosen = [n for n in found if any(p.fullmatch(n) for p in patterns)]
        if unread := [n for n in chosen if format_of(n) is None]:
            raise ConfigError(
                f"the dataset's README.md names {unread[0]}, which no Source reads",
                hint=f"read are {', '.join(FORMATS)}",
            )
        if not chosen:
            raise ConfigError(f"no file matches the data_files of the dataset's README.md: {', '.join(named)}")
        return chosen
    if config is not None and not any(n.startswith(f"{config}/") for n in names):
        raise ConfigError(
            f"the dataset has no configuration {config!r}", hint="leave `config` out, or name a folder of it"
        )
    return _by_names([n for n in found if format_of(n) is not None], split)


def _saved(there: frozenset[str], read: Callable[[str], bytes], split: str) -> list[str]:
    """What `save_to_disk` wrote, of a Dataset or of a DatasetDict."""
    folder = ""
    if "dataset_dict.json" in there:
        splits = _json(read, "dataset_dict.json").get("splits", [])
        if split not in splits:
            raise ConfigError(f"the dataset has no split {split!r}", hint=f"it has {', '.join(map(str, splits))}")
        folder = f"{split}/"
    state = _json(read, f"{folder}state.json") if f"{folder}state.json" in there else {}
    listed = [f"{folder}{f.get('filename')}" for f in state.get("_data_files", []) if isinstance(f, dict)]
    if missing := [n for n in listed if n not in there]:
        raise ConfigError(f"{folder}state.json names {missing[0]}, which is not in the dataset's folder")
    if not listed:
        raise ConfigError(f"{folder}state.json names no data files", hint="was save_to_disk interrupted?")
    return sorted(listed)


def _json(read: Callable[[str], bytes], name: str) -> dict[str, Any]:
    try:
        value = json.loads(read(name))
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"{name} of the dataset is not JSON: {e}") from e
    return value if isinstance(value, dict) else {}


def _configured(readme: bytes, split: str, config: str | None) -> list[str] | None:
    """Patterns of the split's files out of the front matter of README.md; None if it has none."""
    found = re.match(rb"---\r?\n(.*?)\r?\n---\r?(?:\n|$)", readme[:_README_BYTES], re.DOTALL)
    if found is None:
        return None
    try:
        head = yaml.safe_load(found[1])
    except (yaml.YAMLError, RecursionError, ValueError) as e:
        raise ConfigError(f"the front matter of the dataset's README.md is not YAML: {str(e)[:200]}") from e
    configs = head.get("configs") if isinstance(head, dict) else None
    configs = [c for c in configs if isinstance(c, dict) and "data_files" in c] if isinstance(configs, list) else []
    if not configs:
        return None
    names = [str(c.get("config_name", "default")) for c in configs]
    if config is None:
        chosen = [c for c, n in zip(configs, names, strict=True) if n == "default" or c.get("default") is True]
        chosen = chosen or (configs if len(configs) == 1 else [])
    else:
        chosen = [c for c, n in zip(configs, names, strict=True) if n == config]
    if not chosen:
        raise ConfigError(
            f"the dataset has no configuration {config!r}" if config else "the dataset has several configurations",
            hint=f"config: one of {', '.join(names)}",
        )
    by_split = _splits(chosen[0]["data_files"])
    if split not in by_split:
        raise ConfigError(f"the dataset has no split {split!r}", hint=f"it has {', '.join(by_split)}")
    folder = str(chosen[0].get("data_dir") or "").strip("./")
    return [f"{folder}/{p}" if folder else p for p in by_split[split]]


def _splits(data_files: Any) -> dict[str, list[str]]:
    """`data_files` in any of its forms: a pattern, a list of them, or lists per split."""
    if isinstance(data_files, str):
        return {"train": [data_files]}
    if isinstance(data_files, dict):
        return {str(k): [str(p) for p in (v if isinstance(v, list) else [v])] for k, v in data_files.items()}
    found: dict[str, list[str]] = {}
    for item in data_files if isinstance(data_files, list) else []:
        split, path = (item.get("split", "train"), item.get("path")) if isinstance(item, dict) else ("train", item)
        found.setdefault(str(split), []).extend(str(p) for p in (path if isinstance(path, list) else [path]))
    return found


def _by_names(names: Sequence[str], split: str) -> list[str]:
    """By `split-00000-of-00009`, else by the words train, validation, test in names; if there are none, all are train."""
    by_split: dict[str, list[str]] = {}
    for name in names:
        numbered = _NUMBERED.search(name)
        words = re.split(r"[^a-z]+", name.lower().removesuffix(f".{name.rpartition('.')[2].lower()}"))
        word = next((_KEYWORDS[w] for w in reversed(words) if w in _KEYWORDS), None)
        own = word if word is not None else numbered[1] if numbered else None
        if own is not None:
            by_split.setdefault(own, []).append(name)
    if not by_split:
        by_split = {"train": list(names)} if names else {}
    if split not in by_split:
        raise ConfigError(
            f"the dataset has no files of a split {split!r}",
            hint=f"it has {', '.join(sorted(by_split))}" if by_split else f"no file ends in {', '.join(FORMATS)}",
        )
    return by_split[split]


def _regex(pattern: str) -> str:
    """A glob over paths as a regular expression: ** crosses folders, * and ? do not."""
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]/]+\])", pattern.removeprefix("./"))
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        known.get(p) or (p.replace("[!", "[^") if p.startswith("[") and p[-1] == "]" else re.escape(p)) for p in parts
    )
