"""Sources of records with fields: which field becomes which column, said once for all of them.

A field is named by a dotted path; what is not mapped goes to `meta`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from corpusflow import FileSource, param
from stages.ingest._json import as_string, find, name_of, remove
from stages.ingest._reasons import Reason

#: Columns of Sources whose records are text already.
RECORD_COLUMNS: Final = (
    "id",
    "record_id",
    "text",
    "url",
    "source",
    "date",
    "meta",
    "path",
    "offset",
    "length",
    "skipped",
    "quarantine",
)


@dataclass(frozen=True, kw_only=True)
class FieldSource(FileSource):
    """A Source whose records have fields."""

    text: str = param("text", doc="Field or column that holds the text; dots reach into objects (`body.content`).")
    id: str = param("id", doc="Field that becomes `record_id`, where there is one.")
    url: str = param("url", doc="Field that becomes `url`, where there is one.")
    date: str = param("date", doc="Field that becomes `date`, where there is one.")
    columns: dict[str, str] = param(factory=dict, doc="Further columns of strings: {name: field}.")

    def outputs(self) -> Mapping[str, pa.DataType]:
        return dict.fromkeys(self.columns, pa.string())

    @cached_property
    def mapped(self) -> dict[str, str]:
        """Column -> field of all but the text."""
        return {"record_id": self.id, "url": self.url, "date": self.date, **self.columns}

    @cached_property
    def _paths(self) -> tuple[tuple[str, ...], list[tuple[str, tuple[str, ...]]]]:
        return tuple(self.text.split(".")), [(c, tuple(f.split("."))) for c, f in self.mapped.items()]

    def take_fields(self, record: dict[str, Any], row: dict[str, Any]) -> None:
        """Move the mapped fields of a record into a row; without a text, the row says why."""
        text_path, others = self._paths
        there, text = find(record, text_path)
        for column, path in others:
            row[column] = as_string(find(record, path)[1])
        # Last, since several columns may be of one field: with `id: url`, `url` would else be null.
        remove(record, text_path)
        for _, path in others:
            remove(record, path)
        if isinstance(text, str):
            row["text"] = text
        elif text is None:
            row["skipped"] = "null_text" if there else "missing_text"
        else:
            row["quarantine"] = f"{Reason.WRONG_TYPE}: the field {self.text} is {name_of(text)}, not a string"


def distinct(names: Sequence[str]) -> list[str]:
    """Column names; the second of two equal ones gets a number, the next one that no other has."""
    made: dict[str, None] = {}
    seen: Counter[str] = Counter()
    for name in names:
        own = name
        while own in made:
            seen[name] += 1
            own = f"{name}_{seen[name] + 1}"
        made[own] = None
    return list(made)
