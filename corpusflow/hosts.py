"""Hosts of URLs: one form for each, and which lie below which."""

from __future__ import annotations

from collections.abc import Set
from urllib.parse import urlsplit


def host(url: str) -> str:
    """The host of a URL, in lower case and ASCII form; "" where there is none."""
    try:
        name = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
    return ascii_form(name)


def ascii_form(name: str) -> str:
    """A host as DNS has it: `bücher.example` is `xn--bcher-kva.example`; what has no such form stays."""
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode()
    except UnicodeError:
        return name


def below(name: str, domains: Set[str]) -> bool:
    """Whether a host is one of the domains or lies below one."""
    while name:
        if name in domains:
            return True
        name = name.partition(".")[2]
    return False
