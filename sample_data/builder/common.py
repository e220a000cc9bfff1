"""Where things lie, and numbers that look random but depend on a name alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).resolve().parent.parent
WARCS = ("web-00.warc.gz", "web-01.warc.gz", "web-02.warc.gz", "web-03.warc.gz")
LANGUAGES = {"zh-Hans": ("zh", "Hans"), "zh-Hant": ("zh", "Hant"), "ja": ("ja", "Jpan"), "ru": ("ru", "Cyrl")}
T = TypeVar("T")


def number(seed: str, below: int) -> int:
    """A number in [0, below) that depends on `seed` alone."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % below


def pick(seed: str, items: Sequence[T], count: int) -> list[T]:
    """`count` different items in an order that depends on `seed` alone."""
    order = sorted(range(len(items)), key=lambda i: hashlib.sha256(f"{seed}/{i}".encode()).digest())
    return [items[i] for i in order[:count]]
