"""The stage contract as executable checks: `check_stage(stage)` holds any stage against it, ours or a stranger's.

Asserts, without being told what the stage does: same output twice; an empty batch; null text; *cutting a batch anywhere
changes nothing*; reads only `reads`; returns exactly `adds`; same number of rows; leaves its input alone; picklable;
parameters survive YAML. What needs a whole run (Exchanges, Sinks) is in checks_run.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from corpusflow import registry
from corpusflow.build import build_stage
from corpusflow.errors import StageError
from corpusflow.plan import parse_type, type_string
from corpusflow.rules import evaluate
from corpusflow.schema import DOCUMENT_COLUMNS, OPTIONAL, QUARANTINE, empty_batch, is_signal
from corpusflow.stage import Composite, Filter, Score, Source, Stage, Transform, parameters, require_columns

#: Texts that have broken text stages: empty, blank, one character, every script, no spaces, long lines, combining marks.
SAMPLE_TEXTS: Final[tuple[str | None, ...]] = (
    "The river rose in the night, and by morning the lower road was under water. Nobody had expected it so soon.\n"
    'Farmers moved their sheep to the hill; the school stayed closed. "We have seen worse," said the miller.',
    None,
    "",
    " \n\t\n ",
    "x",
    "昨夜河水上涨，清晨时低处的道路已被淹没。村民们把羊群赶到山坡上，学校停课一天。老磨坊主说：“比这更大的水我也见过。”",
    "昨夜河水上漲，清晨時低處的道路已被淹沒。村民們把羊群趕到山坡上，學校停課一天。",
    "Der Fluss stieg in der Nacht. Am Morgen stand die untere Straße unter Wasser, und die Schule blieb geschlossen.",
    "川の水が夜のうちに増え、朝には低い道が水に沈んでいた。学校は休みになった。",
    "Река поднялась ночью, и к утру нижняя дорога оказалась под водой. Школа была закрыта.",
    "ارتفع النهر في الليل وغمرت المياه الطريق المنخفض في الصباح.",
    "แม่น้ำเอ่อขึ้นในเวลากลางคืน และถนนสายล่างจมอยู่ใต้น้ำในตอนเช้า",
    "buy now " * 200,
    "- one\n- two\n* three\n• four\n...\n…\n",
    "a" * 3_000,
    "é̂̃" * 40 + "\u200b\u200d👩‍👩‍👧‍👦\ufeff",
    "1234567890 +44 20 7946 0000 someone@example.org 192.0.2.1 {}[]<>|\\",
    "CAPS AND MORE CAPS!!! 100% FREE\r\nlast line without end",
    "line one\n\n\nline one\n\nline two\nline two\nline two\n",
    "\x00\x01\x1b[0m\x7f\u0085\u2028\u2029end",
)
_LANGUAGES: Final = ("en", None, "und", "und", "en", "zh", "zh", "de", "ja", "ru", "ar", "th", "en", "en", "en")


def check_stage(stage: Stage, *, examples: pa.RecordBatch | None = None) -> None:
    """Hold one stage against the contract.

    Args:
        stage: an instance with its parameters. A Source must be given paths that exist; Exchanges and Sinks are checked by
            running them (see `check_barrier`).
        examples: documents to try it on besides the built-in ones; columns the stage reads must be among them.

    Raises:
        StageError: the first clause it breaks.
    """
    if isinstance(stage, Composite):
        name = type(stage).__qualname__
        _check_parameters(name, stage)
        parts = stage.expand()
        types = {k: v for p in parts for k, v in p.outputs().items()}
        for part in parts:
            if isinstance(part, Composite):
                raise StageError(f"{name} expands to another Composite, {type(part).__qualname__}")
            _check_simple(part, examples, types)
    else:
        _check_simple(stage, examples, None)


def _check_simple(stage: Stage, examples: pa.RecordBatch | None, types: Mapping[str, pa.DataType] | None) -> None:
    name = type(stage).__qualname__
    _check_parameters(name, stage)
    if isinstance(stage, Score) and (plain := [c for c in stage.outputs() if not is_signal(c)]):
        raise StageError(f"{name} is a Score and adds {plain[0]!r}", hint=f"signals are dotted: my.{plain[0]}")
    _check_types(name, stage)
    if isinstance(stage, Source):
        _check_source(name, stage)
    elif isinstance(stage, Filter):
        _check_filter(name, stage, types)
    elif isinstance(stage, (Score, Transform)):
        run = stage.score if isinstance(stage, Score) else stage.transform
        columns = [c.removesuffix(OPTIONAL) for c in stage.inputs()]
        tried = [sample_batch(stage, types), *([examples.select(columns)] if examples is not None else [])]
        for batch in tried:
            _check_batches(name, stage, _watched(name, run), batch)


def _check_types(name: str, stage: Stage) -> None:
    """A plan holds types as text."""
    for column, kind in stage.outputs().items():
        try:
            again = parse_type(type_string(kind))
        except (ValueError, KeyError) as e:
            raise StageError(f"{name} adds {column} as {kind}, which no plan can hold ({e})") from e
        if again != kind:
            raise StageError(f"{name} adds {column} as {kind}, which a plan would hold as {again}")


def sample_batch(
    stage: Stage,
    types: Mapping[str, pa.DataType] | None = None,
    texts: Sequence[str | None] = SAMPLE_TEXTS,
    languages: Sequence[str | None] = _LANGUAGES,
) -> pa.RecordBatch:
    """A batch of `stage.inputs()` made of some texts; signals it reads get values of their declared type.

    Args:
        stage: whose inputs.
        types: of signals that another part of the same Composite makes.
        texts: one row each.
        languages: values of `language.code`, repeated where there are more texts.
    """
    n = len(texts)
    arrays = []
    names = [c.removesuffix(OPTIONAL) for c in stage.inputs()]
    for column in names:
        kind = (types or {}).get(column) or _type_of(column)
        if column == "text":
            values: Sequence[object] = texts
        elif column == "raw":
            values = [None if t is None else f"<html><body><p>{t}</p></body></html>".encode() for t in texts]
        elif column == "content_type":
            values = ["text/html; charset=utf-8"] * n
        elif column == "id":
            values = [f"check/a.jsonl#{i}" for i in range(n)]
        elif column == "url":
            values = [f"https://www.example.org/{i}?q={i}" if i % 5 else None for i in range(n)]
        elif column == "meta":
            values = ['{"a": 1}' if i % 3 else None for i in range(n)]
        elif column == "language.code":
            values = [languages[i % len(languages)] for i in range(n)]
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            values = [None if i == 3 else i for i in range(n)]
        elif pa.types.is_boolean(kind):
            values = [bool(i % 2) for i in range(n)]
        else:
            values = [None] * n
        arrays.append(pa.array(values, kind))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _type_of(column: str) -> pa.DataType:
    if column in DOCUMENT_COLUMNS:
        return DOCUMENT_COLUMNS[column]
    if is_signal(column) and (found := registry.score_for(column)) is not None:
        _, cls, i = found
        stage = cls()
        part = stage.expand()[i] if isinstance(stage, Composite) else stage
        return part.outputs()[column]
    return pa.string() if not is_signal(column) else pa.float64()


def _check_parameters(name: str, stage: Stage) -> None:
    try:
        again = pickle.loads(pickle.dumps(stage))
    except Exception as e:
        raise StageError(f"{name} cannot be pickled: {e}", hint="keep parameters plain; load models in open()") from e
    if again != stage:
        raise StageError(f"{name} is not equal to its pickled copy")
    given = parameters(stage)
    try:
        plain = yaml.safe_load(yaml.safe_dump(_plain(given)))
    except yaml.YAMLError:
        plain = None
    if plain is None or build_stage(name, type(stage), plain) != stage:
        raise StageError(
            f"parameters of {name} do not survive YAML: {given}", hint="use str, int, float, bool, tuples, dicts"
        )
    for f in dataclasses.fields(stage):
        if not f.metadata.get("doc"):
            raise StageError(
                f"parameter {f.name} of {name} is not declared with param(…)",
                hint=f"{f.name}: … = param(default, doc='…')",
            )


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _check_batches(
    name: str, stage: Stage, run: Callable[[pa.RecordBatch], pa.RecordBatch], batch: pa.RecordBatch
) -> None:
    whole = run(batch)
    made = {column.removesuffix(OPTIONAL): kind for column, kind in stage.outputs().items()}
    require_columns(name, whole.schema, made)
    if whole.num_rows != batch.num_rows:
        raise StageError(f"{name} returned {whole.num_rows} rows for {batch.num_rows}", hint="rows leave by rules only")
    if not _same([run(batch)], whole):
        raise StageError(
            f"{name} gave another result for the same batch", hint="no state between batches, no unseeded randomness"
        )
    empty = run(empty_batch(batch.schema))
    require_columns(name, empty.schema, made)
    if empty.num_rows:
        raise StageError(f"{name} returned {empty.num_rows} rows for an empty batch")
    for cuts in _cuts(batch.num_rows):
        pieces = [run(_copy(batch, a, b)) for a, b in itertools.pairwise(cuts)]
        if not _same(pieces, whole):
            raise StageError(
                f"{name} depends on where a batch is cut (at {list(cuts[1:-1])[:6]})",
                hint="each row's result may depend on that row alone",
            )
    order = list(range(batch.num_rows))[::-1]
    if not _same([run(batch.take(pa.array(order)))], whole.take(pa.array(order))):
        raise StageError(f"{name} depends on the order of rows in a batch")


def _cuts(n: int) -> Iterator[list[int]]:
    yield list(range(n + 1))
    for k in (1, n // 2, n - 1):
        if 0 < k < n:
            yield [0, k, n]


def _copy(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """A slice with buffers of its own in one case and with an offset in the other: both occur in a run."""
    piece = batch.slice(start, end - start)
    return piece if start % 2 else piece.take(pa.array(range(end - start)))


def _watched(name: str, run: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """`run`, whose exceptions name the clause they break, and which must not write into what it is given."""

    def watched(batch: pa.RecordBatch) -> pa.RecordBatch:
        before = _bytes_of(batch)
        try:
            made = run(batch)
        except StageError:
            raise
        except KeyError as e:
            missing = str(e).strip("'\"")
            raise StageError(
                f"{name} raised KeyError: {missing} (it is given {', '.join(batch.schema.names) or 'no column'})",
                hint="a stage is handed the columns in `reads` and no other",
            ) from e
        except Exception as e:
            raise StageError(
                f"{name} raised {type(e).__name__}: {e}",
                hint="null and odd texts occur; say why a row cannot be processed in a column `quarantine`",
            ) from e
        if not isinstance(made, pa.RecordBatch):
            raise StageError(f"{name} returned {type(made).__name__}, not a RecordBatch")
        if _bytes_of(batch) != before:
            raise StageError(f"{name} wrote into the batch it was given", hint="its neighbours read the same buffers")
        return made

    return watched


def _bytes_of(batch: pa.RecordBatch) -> list[bytes | None]:
    """Copies of all buffers, child arrays' included."""
    return [None if b is None else b.to_pybytes() for c in batch.columns for b in c.buffers()]


def _same(pieces: Sequence[pa.RecordBatch], whole: pa.RecordBatch) -> bool:
    """Whether the pieces hold the same rows; a missing `quarantine` is one of nulls, and NaN is NaN."""
    names = [n for n in whole.schema.names if n != QUARANTINE]
    table = pa.Table.from_batches([_with_quarantine(p).select([*names, QUARANTINE]) for p in pieces])
    other = pa.Table.from_batches([_with_quarantine(whole).select([*names, QUARANTINE])])
    for name in table.schema.names:
        a, b = table.column(name).combine_chunks(), other.column(name).combine_chunks()
        if pa.types.is_floating(a.type):
            if not pc.is_nan(a).equals(pc.is_nan(b)):
                return False
            a, b = (pc.if_else(pc.is_nan(c), pa.scalar(0, c.type), c) for c in (a, b))
        if not a.equals(b):
            return False
    return True


def _with_quarantine(batch: pa.RecordBatch) -> pa.RecordBatch:
    if QUARANTINE in batch.schema.names:
        return batch
    return batch.append_column(QUARANTINE, pa.nulls(batch.num_rows, pa.string()))


def _check_filter(name: str, stage: Filter, types: Mapping[str, pa.DataType] | None = None) -> None:
    rules = stage.rules()
    reasons = [r.reason for r in rules]
    if len(set(reasons)) != len(reasons):
        raise StageError(f"{name} uses a drop reason twice: {sorted(reasons)}")
    for reason in reasons:
        if not reason.replace("_", "").isalnum() or reason != reason.lower():
            raise StageError(f"{name}: drop reason {reason!r} is not snake_case")
    batch = sample_batch(stage, types)
    columns = {c: batch.column(c) for c in batch.schema.names}
    verdict = evaluate(rules, columns, batch.num_rows)
    if int(verdict.kept.sum()) + int((verdict.first >= 0).sum()) != batch.num_rows:
        raise StageError(f"{name}: kept + dropped is not the number of rows")


def _check_source(name: str, stage: Source) -> None:
    seen: set[str] = set()
    for split in stage.splits():
        first = list(stage.read(split))
        again = list(stage.read(split))
        if not pa.Table.from_batches(first).equals(pa.Table.from_batches(again)) if first else again:
            raise StageError(f"{name} read the same split differently the second time")
        for batch in first:
            if "id" not in batch.schema.names:
                raise StageError(f"{name} yielded a batch without ids")
            for value in batch.column("id").to_pylist():
                if value is None or value in seen:
                    raise StageError(f"{name} gave the id {value!r} twice")
                seen.add(value)
