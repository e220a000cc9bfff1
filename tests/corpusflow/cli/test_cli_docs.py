"""The README names every command, and names none that does not exist; its Python stands alone."""

from __future__ import annotations

import ast
import builtins
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


def test_every_name_in_a_python_example_comes_from_somewhere() -> None:
    examples = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 5
    for example in examples:
        tree = ast.walk(ast.parse(example))
        known, used = set(vars(builtins)), set()
        for node in tree:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                known |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                known.add(node.name)
            elif isinstance(node, ast.arg):
                known.add(node.arg)
            elif isinstance(node, ast.Name):
                (used if isinstance(node.ctx, ast.Load) else known).add(node.id)
        assert used - known == set(), example
