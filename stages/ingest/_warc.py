"""WARC records out of pieces of a file, with a completeness check of our own.

Reads `_members.Piece`s, yields `Record`s. Promises that a record is handed out as whole only if its end was seen: cut,
damaged and overlong ones come with `error`, a wrong Content-Length is put right where the record's own border is visible,
and what lies between records is accounted for. Records may lie one per gzip member, many in one, or across several.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from stages.ingest._members import Piece

_END: Final = b"\r\n\r\n"
_BORDER: Final = re.compile(rb"\r?\n(?:\r?\n)?(?=WARC/[01]\.)")
_START: Final = re.compile(rb"WARC/[01]\.")
_HEADER: Final = re.compile(r"\n([^:\r\n]+):[ \t]*([^\n]*)")
_FOLD: Final = re.compile(r"\r?\n[ \t]+")
_BLANK_LINE: Final = re.compile(rb"\r?\n\r?\n")
#: A border is at most this long; where it may be cut by the buffer's end, more must come before it is looked for.
_LOOK_AHEAD: Final = 12
#: A header block longer than this is none.
MAX_HEAD_BYTES: Final = 64 << 10


@dataclass(slots=True)
class Record:
    """One record, or a stretch of the file that holds none.

    Attributes:
        offset: where its member starts in the file; in a plain file, where the record starts.
        inner: where it starts in the uncompressed member, 0 if it has the member to itself.
        length: bytes it takes in the file; None if it shares its member with others.
        headers: names in lower case; empty if it has none.
        block: what follows the headers.
        error: why it is not whole.
        repaired: its Content-Length was wrong; the record's end was found otherwise.
    """

    offset: int
    inner: int
    length: int | None
    headers: dict[str, str] = field(default_factory=dict)
    block: bytes = b""
    error: str | None = None
    repaired: bool = False

    @property
    def position(self) -> str:
        """What makes its id unique in the file."""
        return f"{self.offset}+{self.inner}" if self.inner else str(self.offset)


def opens_record(data: bytes) -> bool:
    """Whether a member that begins so begins a record."""
    return _START.match(data.lstrip(b"\r\n")) is not None


def records(pieces: Iterable[Piece], max_bytes: int) -> Iterator[Record]:
    """All records of a file, in order; a block over `max_bytes` is an error, and is not held in memory."""
    assembler = _Assembler(max_bytes)
    for piece in pieces:
        if piece.starts and piece.ends and assembler.empty():
            record = _whole(piece, max_bytes)
            if record is not None:
                yield record
                continue
        yield from assembler.take(piece)
    yield from assembler.finish()


def _whole(piece: Piece, max_bytes: int) -> Record | None:
    """The record of a member that holds exactly one: nearly all."""
    data = piece.data
    at = data.find(_END)
    if at < 0 or at > MAX_HEAD_BYTES or not data.startswith(b"WARC/") or data.find(b"\n\n", 0, at) >= 0:
        return None
    headers = parse_headers(data[:at])
    length = _content_length(headers)
    at += 4
    if length is None or length > max_bytes or len(data) != at + length + 4 or not data.endswith(_END):
        return None
    return Record(piece.offset, 0, piece.end - piece.offset, headers, data[at : at + length])


def parse_headers(block: bytes) -> dict[str, str]:
    """Header lines after the first, names in lower case; of a repeated name the first counts, folded lines are joined."""
    text = block.decode("utf-8", "replace")
    if "\n " in text or "\n\t" in text:
        text = _FOLD.sub(" ", text)
    return {name.lower().rstrip(): value.rstrip() for name, value in reversed(_HEADER.findall(text))}


def _content_length(headers: dict[str, str]) -> int | None:
    value = headers.get("content-length", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None


class _Assembler:
    """Bytes not yet made into records, each with its place in the file."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._buffer = bytearray()
        self._at = 0
        self._marks: list[tuple[int, Piece]] = []  # (position in the buffer, the piece that starts there)
        self._lost: Record | None = None  # bytes between records, growing
        self._skip: tuple[Record, int] | None = None  # an overlong record, and how much of it is still to come
        self._scanned = 0  # no border between the present record's start and here

    def empty(self) -> bool:
        """Whether nothing is pending."""
        return self._at == len(self._buffer) and self._skip is None and self._lost is None

    def take(self, piece: Piece) -> Iterator[Record]:
        """Add a piece; the records it completes."""
        if piece.starts and not self.empty() and opens_record(piece.data[:64]):
            # A record may go on in the next member, but then that does not begin as a record does.
            yield from self._flush("cut off: the next record starts before its end")
        self._append(piece)
        done = list(self._drain(final=piece.ends or piece.error is not None))
        if piece.ends and done and self.empty() and done[-1].inner == 0 and done[-1].offset == piece.offset:
            done[-1].length = piece.end - piece.offset
        if piece.error is not None:
            # The last record of a damaged member is not to be trusted even if it looks whole.
            suspect = done.pop() if done and self.empty() else None
            yield from done
            yield self._damaged(piece, suspect)
            return
        yield from done

    def finish(self) -> Iterator[Record]:
        """What is pending when the file ends."""
        yield from self._drain(final=True)
        yield from self._flush("cut off: the file ends before the record does")

    def _append(self, piece: Piece) -> None:
        at = self._at
        if at:
            del self._buffer[:at]
            self._at = 0
            self._scanned = max(0, self._scanned - at)
            last = max(i for i, (p, _) in enumerate(self._marks) if p <= at)
            self._marks = [(p - at, m) for p, m in self._marks[last:]]
        if not self._buffer:
            self._marks.clear()
        self._marks.append((len(self._buffer), piece))
        self._buffer += piece.data

    def _record(self, start: int, end: int, error: str | None = None) -> Record:
        position, piece = next(m for m in reversed(self._marks) if m[0] <= start)
        if piece.inner < 0:
            return Record(piece.offset + start - position, 0, end - start, error=error)
        return Record(piece.offset, piece.inner + start - position, None, error=error)

    def _drain(self, final: bool) -> Iterator[Record]:
        """Records that are complete. `final`: the member, or the file, ends with the buffer."""
        while True:
            if self._skip is not None:
                record = self._skip[0]
                if not self._skipped(final):
                    return
                yield record
            if not self._to_start(final):
                return
            if self._lost is not None:
                yield self._lost
                self._lost = None
            start = self._at
            record_or_none = self._next(final)
            if record_or_none is not None:
                yield record_or_none
            elif self._skip is None and self._at == start:
                return

    def _skipped(self, final: bool) -> bool:
        """Pass the bytes of an overlong record; whether its end is reached. A false length must not swallow the file."""
        if self._skip is None:
            return True
        record, left = self._skip
        border = _BORDER.search(self._buffer, self._at)
        available = len(self._buffer) - self._at
        if border is not None and border.start() - self._at < left:
            self._at = border.end()
            self._skip = None
            return True
        step = min(left, available if final else max(0, available - _LOOK_AHEAD))
        self._at += step
        self._skip = (record, left - step) if left > step else None
        return self._skip is None

    def _to_start(self, final: bool) -> bool:
        """Go to the next record's first byte; False if it is not in the buffer. What is passed is noted as lost."""
        buffer = self._buffer
        while self._at < len(buffer) and buffer[self._at] in b"\r\n":
            self._at += 1
        if _START.match(buffer, self._at):
            return True
        if not final and len(buffer) - self._at < _LOOK_AHEAD:
            return False
        border = _BORDER.search(buffer, self._at)
        to = border.end() if border else len(buffer) if final else len(buffer) - _LOOK_AHEAD
        if to > self._at:
            if self._lost is None:
                self._lost = self._record(self._at, to, "no record: bytes between two records")
            elif self._lost.length is not None:
                self._lost.length += to - self._at
            self._at = to
        return border is not None

    def _next(self, final: bool) -> Record | None:
        """The record at the start of the buffer; None if more of it has to come, or it is passed over."""
        buffer, start = self._buffer, self._at
        blank = _BLANK_LINE.search(buffer, start, start + MAX_HEAD_BYTES)
        if blank is None:
            if len(buffer) - start >= MAX_HEAD_BYTES:
                self._pass_over("header block without end")
            return None
        headers = parse_headers(bytes(buffer[start : blank.start()]))
        length = _content_length(headers)
        if length is None:
            self._pass_over("no usable Content-Length")
            return None
        body, end = blank.end(), blank.end() + length
        if length > self._max:
            record = self._record(start, end, f"{length} bytes, over the limit of {self._max}")
            record.headers = headers
            self._skip = (record, length)
            self._at = body
            return None
        if len(buffer) < end or (len(buffer) < end + _LOOK_AHEAD and not final):
            return None
        after = bytes(buffer[end : end + _LOOK_AHEAD]).lstrip(b"\r\n")
        if not after or after.startswith(b"WARC/") or b"WARC/".startswith(after):
            return self._made(start, body, end, end, headers)
        return self._mended(start, body, headers, final)

    def _mended(self, start: int, body: int, headers: dict[str, str], final: bool) -> Record | None:
        """A record whose Content-Length leads nowhere, up to the border that can be seen; None if it must still come."""
        border = _BORDER.search(self._buffer, max(body, self._scanned))
        if border is None and not final:
            self._scanned = max(body, len(self._buffer) - _LOOK_AHEAD)
            if self._scanned - body > self._max:
                self._pass_over("wrong Content-Length, and no end in sight")
            return None
        end = border.start() if border else len(self._buffer) - (4 if self._buffer.endswith(_END) else 0)
        record = self._made(start, body, end, border.end() if border else len(self._buffer), headers)
        record.repaired = True
        return record

    def _made(self, start: int, body: int, end: int, to: int, headers: dict[str, str]) -> Record:
        record = self._record(start, to)
        record.headers = headers
        record.block = bytes(self._buffer[body:end])
        self._at = to
        self._scanned = 0
        return record

    def _pass_over(self, error: str) -> None:
        """Go on behind what looked like a record's start."""
        self._lost = self._record(self._at, self._at + 5, error)
        self._at += 5

    def _flush(self, error: str) -> Iterator[Record]:
        """Give up what is pending, unless its own end can be seen."""
        while self._skip is None and self._at < len(self._buffer):
            mended = self._late()
            if mended is None:
                break
            yield mended
            yield from self._drain(final=True)
        pending = self._lost or (self._skip[0] if self._skip else None)
        if pending is None and self._at < len(self._buffer):
            pending = self._record(self._at, len(self._buffer), error)
        if pending is not None:
            yield pending
        self._lost = self._skip = None
        self._at = len(self._buffer)

    def _late(self) -> Record | None:
        """The pending record, if it has an end before the one its Content-Length claims."""
        blank = _BLANK_LINE.search(self._buffer, self._at, self._at + MAX_HEAD_BYTES)
        if blank is None or not _START.match(self._buffer, self._at):
            return None
        headers = parse_headers(bytes(self._buffer[self._at : blank.start()]))
        # A complete gzip member that ends as a record ends holds the whole record, whatever the length says.
        complete = self._marks[-1][1].ends and self._buffer.endswith(_END)
        if complete or _BORDER.search(self._buffer, blank.end()) is not None:
            return self._mended(self._at, blank.end(), headers, final=True)
        return None

    def _damaged(self, piece: Piece, suspect: Record | None) -> Record:
        """One record for all that a damaged member spoils, from the record that was being read."""
        if suspect is not None:
            record = Record(suspect.offset, suspect.inner, None, suspect.headers)
        elif self._lost is not None:
            record = self._lost
        elif self._skip is not None:
            record = self._skip[0]
        elif self._at < len(self._buffer):
            record = self._record(self._at, len(self._buffer))
        else:
            record = Record(piece.offset, max(piece.inner, 0) + len(piece.data), None)
        record.length = piece.end - record.offset if record.inner == 0 or record.offset != piece.offset else None
        record.error = piece.error
        self._lost = self._skip = None
        self._at = len(self._buffer)
        return record
