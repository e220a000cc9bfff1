"""Committed parts without some documents: the functions that write one new attempt of one shard.

Promises that rows of an index or a wide checkpoint keep their numbers, and that a part in which nothing changes is carried
over as the file it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow.checkpoint import (
    NARROW_ROW_GROUP_ROWS,
    WIDE_ROW_GROUP_ROWS,
    PartWriter,
    noticing_damage,
    open_parquet,
    read_part,
)
from corpusflow.commit import Attempt, Dataset
from corpusflow.output import byte_length, reason_of
from corpusflow.reader import REMOVED, TAKEDOWN
from corpusflow.record import PartFile
from corpusflow.schema import QUARANTINE, ROW, SKIPPED, TEXT

_REMOVED_SCHEMA: Final = pa.schema([(ROW, pa.int32())])
#: Stands for a removed document's id or URL wherever evidence cited it.
TOMBSTONE: Final = "takedown"


def groups(dataset: Dataset, part: PartFile) -> Iterator[pa.Table]:
    """The row groups of a committed Parquet file, one at a time."""
    with open_parquet(dataset, part) as file:
        for g in range(file.metadata.num_row_groups):
            with noticing_damage(dataset, part):
                table = file.read_row_group(g, use_threads=False)
            yield _as_written(table)


def _as_written(table: pa.Table) -> pa.Table:
    """The table with its lists' items named as stages name them: Parquet's own name for them would change the file's bytes,
    and a repair could not make the same ones again."""
    fields = [pa.field(f.name, pa.list_(f.type.value_type)) if pa.types.is_list(f.type) else f for f in table.schema]
    schema = pa.schema(fields)
    return table.cast(schema)  # always: types that differ by these names alone are equal to Arrow


def blanked(table: pa.Table, gone: np.ndarray) -> pa.Table:
    """The table with rows (bool array) as nulls; their number stays, and an index says that they are skipped."""
    if not gone.any():
        return table
    kept = pa.array(np.arange(table.num_rows), pa.int64(), mask=gone)
    for i, field in enumerate(table.schema):
        if field.name == SKIPPED:
            column = pc.if_else(pa.array(gone), pa.scalar(TAKEDOWN), table.column(i).combine_chunks())
        elif field.name == ROW:
            continue
        else:
            column = table.column(i).combine_chunks().take(kept)
        table = table.set_column(i, field, column)
    return table


def blank_index(dataset: Dataset, attempt: Attempt, part: PartFile, gone: np.ndarray) -> dict[str, dict[str, int]]:
    """Write a Source's index without what it says of some rows (int32).

    Returns:
        what these rows had been: "kept": {"": n}, and "dropped" and "quarantined" by reason.
    """
    before: dict[str, dict[str, int]] = {"kept": {}, "dropped": {}, "quarantined": {}}
    start = 0
    writer = None
    for table in groups(dataset, part):
        mask = _mask(gone, start, table.num_rows)
        for row in table.filter(pa.array(mask)).select([SKIPPED, QUARANTINE]).to_pylist():
            if row[SKIPPED] is not None:
                kind, reason = "dropped", row[SKIPPED]
            elif row[QUARANTINE] is not None:
                kind, reason = "quarantined", reason_of(row[QUARANTINE])
            else:
                kind, reason = "kept", ""
            before[kind][reason] = before[kind].get(reason, 0) + 1
        writer = writer or PartWriter(attempt, part.label, table.schema, row_group_rows=NARROW_ROW_GROUP_ROWS)
        writer.write(blanked(table, mask))
        start += table.num_rows
    if writer is not None:
        writer.close()
    return before


def blank_wide(dataset: Dataset, attempt: Attempt, part: PartFile, gone: np.ndarray, before: np.ndarray) -> int:
    """Write a wide checkpoint with some rows (int32) blank, and the part that says which are, `before` among them.

    Returns:
        bytes of text that are left.
    """
    start = left = 0
    writer = None
    for table in groups(dataset, part):
        table = blanked(table, _mask(gone, start, table.num_rows))
        left += byte_length(table.column(TEXT)) if TEXT in table.column_names else 0
        if writer is None:
            sized = TEXT if TEXT in table.column_names else None
            writer = PartWriter(attempt, part.label, table.schema, row_group_rows=WIDE_ROW_GROUP_ROWS, sized_by=sized)
        writer.write(table)
        start += table.num_rows
    if writer is not None:
        writer.close()
    with PartWriter(attempt, REMOVED, _REMOVED_SCHEMA) as removed:
        removed.write(pa.table({ROW: pa.array(np.union1d(before, gone).astype(np.int32))}))
    return left


def without_rows(
    dataset: Dataset, attempt: Attempt, part: PartFile, gone: np.ndarray, edit: Callable[[pa.Table], pa.Table | None]
) -> int:
    """Write a narrow part without some rows (int32 numbers of its base), and with what `edit` does to the others.

    Args:
        edit: a new table, or None where nothing is to change.

    Returns:
        how many rows left. Where that is none and nothing was edited, the file is carried over.
    """
    table = _as_written(read_part(dataset, part))
    keep = ~np.isin(table.column(ROW).to_numpy(), gone)
    edited = edit(table.filter(pa.array(keep)))
    if keep.all() and edited is None:
        attempt.carry(part)
        return 0
    with PartWriter(attempt, part.label, table.schema) as writer:
        writer.write(table.filter(pa.array(keep)) if edited is None else edited)
    return int((~keep).sum())


def quarantine_reasons(dataset: Dataset, part: PartFile, gone: np.ndarray) -> dict[str, int]:
    """How many of some rows (int32) a quarantine part has, by reason."""
    table = read_part(dataset, part, [ROW, "reason"])
    hit = np.isin(table.column(ROW).to_numpy(), gone)
    counts: dict[str, int] = {}
    for reason in table.column("reason").filter(pa.array(hit)).to_pylist():
        counts[reason] = counts.get(reason, 0) + 1
    return counts


def subtracted(table: Mapping[str, int], less: Mapping[str, int]) -> dict[str, int]:
    """Counts by reason, without those that came to nothing."""
    return {k: n for k, v in table.items() if (n := v - less.get(k, 0))}


def cited(table: pa.Table, names: pa.Array, *, others: bool) -> pa.Table | None:
    """Evidence with a tombstone in place of every name; None where it cites none.

    Args:
        names: ids, record ids and URLs, strings.
        others: also let go of the other strings of a row that cites a name: an excerpt of its text for one.
    """
    strings = [i for i, f in enumerate(table.schema) if _is_string(f.type)]
    lists = [i for i, f in enumerate(table.schema) if pa.types.is_list(f.type) and _is_string(f.type.value_type)]
    hits = {i: _in(table.column(i).combine_chunks(), names) for i in strings}
    inner = {i: table.column(i).combine_chunks() for i in lists}
    rows = np.zeros(table.num_rows, np.bool_)
    for hit in hits.values():
        rows |= hit
    for column in inner.values():
        rows |= _rows_of(column, _in(column.flatten(), names))
    if not rows.any():
        return None
    for i in strings:
        field = table.schema.field(i)
        column = table.column(i).combine_chunks()
        if others:
            column = pc.if_else(pa.array(rows), pa.scalar(None, field.type), column)
        column = pc.if_else(pa.array(hits[i]), pa.scalar(TOMBSTONE, field.type), column)
        table = table.set_column(i, field, column)
    for i, column in inner.items():
        values = column.flatten()
        values = pc.if_else(pa.array(_in(values, names)), pa.scalar(TOMBSTONE, values.type), values)
        offsets = np.concatenate([[0], np.cumsum(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))])
        made = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, mask=column.is_null())
        table = table.set_column(i, table.schema.field(i), made.cast(column.type))
    return table


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _in(column: pa.Array, names: pa.Array) -> np.ndarray:
    out: np.ndarray = pc.is_in(column, value_set=names.cast(column.type)).to_numpy(zero_copy_only=False)
    return out


def _rows_of(column: pa.Array, hit: np.ndarray) -> np.ndarray:
    """Which lists have a value that is set in `hit` (bool, over the flattened values)."""
    owner = np.repeat(np.arange(len(column)), column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    out = np.zeros(len(column), np.bool_)
    out[owner[hit]] = True
    return out


def _mask(rows: np.ndarray, start: int, count: int) -> np.ndarray:
    mask = np.zeros(count, np.bool_)
    inside = rows[(rows >= start) & (rows < start + count)] - start
    mask[inside] = True
    return mask


def as_text(data: bytes, names: set[str]) -> bytes | None:
    """A text file without the names; None where it has none of them.

    Raises:
        UnicodeDecodeError: it is no text.
    """
    text = data.decode()
    found: list[str] = sorted((n for n in names if n in text), key=len, reverse=True)
    if not found:
        return None
    # an id ends in a number: file#1 is not the beginning of file#12 or file#1+80
    pattern = "|".join(re.escape(n) + (r"(?![\d+])" if n[-1:].isdigit() else "") for n in found)
    edited = re.sub(pattern, TOMBSTONE, text)
    return None if edited == text else edited.encode()


def total(counts: Mapping[str, Any]) -> int:
    """The sum of counts by reason."""
    return sum(counts.values())
