"""clean.unicode: text in one encoding of itself, without the damage that copying and converting leave behind.

Reads and writes `text`. In this order, until nothing changes: the edit of `stages.kernels.unicode` (line ends become
``\\n``; control, invisible and bidirectional characters go, joiners stay where a script or an emoji needs them; trailing
white space and long runs of blank lines are cut), ftfy (mojibake, HTML entities, Latin ligatures, C1 controls), NFC.

Promises: idempotent; the result equals that of calling ftfy on every document, which is done only where a test of the
characters says that it could change something; full-width forms and curly quotes stay (ftfy's defaults rewrite Chinese
and Japanese punctuation: NVIDIA-NeMo/Curator #476, huggingface/datatrove PR #319).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import ftfy
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import ConfigError, Transform, param
from stages.kernels.buffers import text_buffers, text_column
from stages.kernels.unicode import edit
from stages.kernels.unicode_tables import character_classes, suspect_pairs

#: Line ends and control characters are the edit's business.
_FTFY: Final = ftfy.TextFixerConfig(
    fix_character_width=False,
    uncurl_quotes=False,
    normalization=None,
    fix_line_breaks=False,
    remove_terminal_escapes=False,
    remove_control_chars=False,
    explain=False,
)
_OTHER_C1: Final = re.compile("[\x80-\x84\x86-\x9f]")
#: ftfy undoes one level of escaping a pass: text escaped n times takes n passes. Nobody escapes eight times.
_NESTED_ENTITY: Final = re.compile(r"&(?:#?[0-9A-Za-z]{1,24};){8}")
_MAX_ROUNDS: Final = 8


@dataclass(frozen=True, kw_only=True)
class Unicode(Transform):
    """Repairs encoding damage, normalises to NFC, removes invisible characters, trailing spaces and extra blank lines."""

    max_blank_lines: int = param(2, doc="Longest run of blank lines that is left as it is; longer ones are cut to it.")

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[dict[str, pa.DataType]] = {"text": pa.large_string()}
    libraries: ClassVar[tuple[str, ...]] = ("ftfy",)

    def __post_init__(self) -> None:
        if self.max_blank_lines < 0:
            raise ConfigError(f"max_blank_lines must be 0 or more, got {self.max_blank_lines}")

    def open(self) -> Any:
        """The tables of the kernel."""
        return (character_classes(), *suspect_pairs())

    def warm(self) -> None:
        """Compile the kernel."""
        self._edit(pa.array(["a b"], pa.large_string()))

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`text`, cleaned; null stays null."""
        edited = self._edit(batch.column("text"))
        text = edited.text
        changed: dict[int, str] = {}
        rows = np.arange(len(text))
        for _ in range(_MAX_ROUNDS):
            repaired = edited.repair()
            if not repaired:
                break
            rows = rows[list(repaired)]
            edited = self._edit(pa.array(repaired.values(), pa.large_string()))
            changed.update(zip(rows.tolist(), edited.text.to_pylist(), strict=True))
        if changed:
            mask = np.zeros(len(text), np.bool_)
            mask[list(changed)] = True
            new = [changed[r] for r in sorted(changed)]
            text = pc.replace_with_mask(text, pa.array(mask), pa.array(new, pa.large_string()))
        return pa.RecordBatch.from_arrays([text], names=["text"])

    def _edit(self, column: pa.Array) -> _Edited:
        offsets, data, valid = text_buffers(column)
        out = np.empty(int(offsets[-1] - offsets[0]), np.uint8)
        out_offsets = np.empty(len(offsets), np.int64)
        flags = np.empty(len(column), np.uint8)
        hits = np.empty(256, np.int64)
        classes, kinds, pairs = self.opened
        while True:
            found = edit(
                data, offsets, valid, classes, kinds, pairs, self.max_blank_lines, out, out_offsets, flags, hits
            )
            if found <= len(hits):
                break
            hits = np.empty(found, np.int64)
        return _Edited(text_column(out[: out_offsets[-1]], out_offsets, valid), out, out_offsets, flags, hits[:found])


@dataclass(frozen=True)
class _Edited:
    """What the kernel makes of a batch: `text` over the buffers `data` and `offsets`, flags and suspect positions."""

    text: pa.Array
    data: np.ndarray
    offsets: np.ndarray
    flags: np.ndarray
    hits: np.ndarray

    def repair(self) -> dict[int, str]:
        """Row -> new text, ascending, of the flagged documents that ftfy or NFC change."""
        changed = {}
        for row in np.flatnonzero(self.flags).tolist():
            start, end = self.offsets[row], self.offsets[row + 1]
            document = self.data[start:end].tobytes()
            first, last = np.searchsorted(self.hits, (start, end))
            text = repair(document, (self.hits[first:last] - start).tolist())
            if text is not None:
                changed[row] = text
        return changed


def repair(document: bytes, suspects: Sequence[int]) -> str | None:
    """What ftfy and NFC make of a document, None where they change nothing.

    Args:
        document: UTF-8.
        suspects: ascending byte positions, at least one in every line that ftfy might change.
    """
    pieces = []
    done = 0
    tag = document.find(b"<")
    for position in suspects:
        if position < done:
            continue
        start = document.rfind(b"\n", 0, position) + 1
        end = document.find(b"\n", position)
        stop = end if end >= 0 else len(document)
        line = document[start:stop].decode()
        # ftfy takes text with a "<" in it for HTML, from that line on.
        pieces += [document[done:start].decode(), _repair_line(line, end >= 0, not 0 <= tag < stop)]
        done = stop
    pieces.append(document[done:].decode())
    text = unicodedata.normalize("NFC", "".join(pieces))
    return text if text.encode() != document else None


def _repair_line(line: str, ended: bool, entities: bool) -> str:
    """One line as ftfy works on it; `ended` by a line end, `entities` to be decoded."""
    config = _FTFY
    if not entities or _NESTED_ENTITY.search(line):
        config = config._replace(unescape_html=False)
    fixed = ftfy.fix_text(line + "\n" * ended, config)
    next_lines = line.count("\x85")
    if next_lines and not _OTHER_C1.search(line) and fixed.count("…") == line.count("…") + next_lines:
        # ftfy took U+0085 for the ellipsis of windows-1252. Without other signs of that encoding it is a line end.
        fixed = ftfy.fix_text(line.replace("\x85", "\n") + "\n" * ended, config)
    return fixed[:-1] if ended else fixed


STAGE = Unicode
