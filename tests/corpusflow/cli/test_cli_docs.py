"""The README names every command, and names none that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

from corpusflow.cli import COMMANDS

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def test_every_command_is_in_the_readme() -> None:
    missing = [name for name in COMMANDS if not re.search(rf"(corpusflow |`){re.escape(name)}(?![\w.-])", README)]
    assert missing == []


def test_the_readme_calls_no_other_command() -> None:
    called = set(re.findall(r"^\s*(?:\$ )?corpusflow ([a-z][a-z-]*)", README, re.MULTILINE))
    assert called - set(COMMANDS) == set()
