"""What a hook measured, as text for people: values a line each, and a table for every list or mapping of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_report(console: Console, report: Mapping[str, Any]) -> None:
    """Print JSON values: scalars first, then a table for each list of records, mapping of records, or mapping of scalars."""
    plain = {name: value for name, value in report.items() if not _is_nested(value)}
    width = max((len(_title(name)) for name in plain), default=0)
    for name, value in plain.items():
        console.print(Text(f"{_title(name):<{width}}  ").append(_cell(value)), soft_wrap=True)
    for name, value in report.items():
        if _is_nested(value):
            console.print()
            console.print(Text(_title(name), style="bold"))
            console.print(_table(value))


def _is_nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return _is_list(value) and any(isinstance(item, Mapping) for item in value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _table(value: Any) -> Table:
    """A row an entry; a mapping's keys are the first column."""
    if isinstance(value, Mapping):
        rows = [{"": key, **(v if isinstance(v, Mapping) else {"value": v})} for key, v in value.items()]
    else:
        rows = [dict(item) if isinstance(item, Mapping) else {"value": item} for item in value]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=columns != ["", "value"])
    for name in columns:
        numbers = all(isinstance(row.get(name, 0), (int, float, type(None))) for row in rows)
        table.add_column(Text(_title(name)), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[name]) if name in row else "") for name in columns))
    return table


def _title(name: Any) -> str:
    return _printable(str(name).replace("_", " "))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{_title(k)} {_cell(v)}" for k, v in value.items())
    if _is_list(value):
        return ", ".join(_cell(item) for item in value) or "none"
    return _printable(str(value))


def _printable(text: str) -> str:
    """Texts come from data: nothing in them may move the cursor or break a line."""
    return "".join(c if c.isprintable() else " " for c in text)
