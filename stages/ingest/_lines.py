"""Lines of a file that may be compressed, as bytes, each with its place; nothing but a line feed ends a line.

`str.splitlines` and text mode would also cut at U+2028, U+0085 and bare carriage returns, which occur inside JSON strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stages.ingest._members import Piece


@dataclass(slots=True)
class Line:
    """A line without its end, or a stretch of the file that could not be read.

    Attributes:
        data: the bytes.
        offset: where the line starts in the uncompressed file; with `error`, where the damage starts in the file as stored.
        length: bytes of it.
        error: why there is no data.
        stored: `offset` and `length` are of the file as stored.
        suspect: the compressed member it comes from is damaged somewhere, perhaps here.
    """

    data: bytes
    offset: int
    length: int
    error: str | None = None
    stored: bool = False
    suspect: bool = False


def lines(pieces: Iterable[Piece], max_bytes: int) -> Iterator[Line]:
    """Every line that is not empty; one longer than `max_bytes` is an error and is not held in memory."""
    start = 0  # offset of the pending line
    pending: list[bytes] = []
    held = 0
    for piece in pieces:
        # What a decoder gave right before it found damage may be wrong already.
        data = b"" if piece.damaged else piece.data
        if pending or held:
            end = data.find(b"\n")
            if end < 0 and piece.error is None:
                held += len(data)
                if held <= max_bytes:
                    pending.append(data)
                else:
                    pending.clear()
                continue
            if end >= 0:
                pending.append(data[:end])
                held += end
                yield from _line(pending, start, held, max_bytes, piece.suspect)
                start += held + 1
                data = data[end + 1 :]
            pending, held = [], 0 if end >= 0 else held
        parts = data.split(b"\n")
        for part in parts[:-1]:
            size = len(part)
            if size > max_bytes:
                yield _too_long(start, size, max_bytes)
            elif part and not part.isspace():
                yield Line(part, start, size, suspect=piece.suspect)
            start += size + 1
        last = parts[-1]
        if piece.error is not None:
            # The line that the damage cuts goes with it.
            yield Line(b"", piece.offset, piece.end - piece.offset, piece.error, stored=piece.inner >= 0)
            start += held + len(last)
            pending, held = [], 0
            continue
        if last:
            pending, held = ([last], len(last)) if len(last) <= max_bytes else ([], len(last))
    if held:
        yield from _line(pending, start, held, max_bytes)


def _line(parts: list[bytes], start: int, held: int, max_bytes: int, suspect: bool = False) -> Iterator[Line]:
    if held > max_bytes:
        yield _too_long(start, held, max_bytes)
        return
    data = b"".join(parts)
    if data and not data.isspace():
        yield Line(data, start, held, suspect=suspect)


def _too_long(start: int, size: int, max_bytes: int) -> Line:
    return Line(b"", start, size, f"a line of {size} bytes, over the limit of {max_bytes}")
