"""Lines of a file that may be compressed, as bytes, each with its place; nothing but a line feed ends a line.

`str.splitlines` and text mode would also cut at U+2028, U+0085 and bare carriage returns, which occur inside JSON strings.
Promises that the lines of a file's ranges are those of the whole file, each once: the line that goes on over the border of
two ranges, or starts right at it, belongs to the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stages.ingest._members import Piece
from stages.ingest._reasons import Reason


@dataclass(slots=True)
class Line:
    """A line without its end, or a stretch of the file that could not be read.

    Attributes:
        data: the bytes.
        offset: where it starts in the file; in a compressed one, where the member starts that it starts in.
        inner: where it starts in the uncompressed member; -1 in a plain file.
        length: bytes it takes in the file as stored; None where it shares a compressed member with others.
        error: why there is no data, as `reason: detail`.
        spoilt: it stands for a damaged member, which may hold good lines at its start.
        suspect: the member it comes from is damaged somewhere, perhaps here.
    """

    data: bytes
    offset: int
    inner: int = -1
    length: int | None = None
    error: str | None = None
    spoilt: bool = False
    suspect: bool = False

    @property
    def position(self) -> str:
        """What makes its id unique in the file."""
        if self.spoilt:
            return f"bad{self.offset}"
        return f"{self.offset}+{self.inner}" if self.inner > 0 else str(self.offset)


def lines(pieces: Iterable[Piece], max_bytes: int, middle: bool = False) -> Iterator[Line]:
    """Every line that is not empty.

    Args:
        pieces: of a file, or of a range of it.
        max_bytes: a line longer than this is an error and is not held in memory.
        middle: the range starts in the middle of the file: what comes before the first line feed is another's.
    """
    pending: list[bytes] = []
    held = 0  # bytes of the line that has begun, whether or not they are kept
    place = (0, -1)  # where it starts
    passing = middle
    for piece in pieces:
        if passing and piece.beyond:
            return
        # What a decoder gave right before it found damage may be wrong already.
        data = b"" if piece.damaged else piece.data
        parts = data.split(b"\n")
        at = 0
        if passing or held or piece.beyond:
            # The first part ends what was begun, or goes on with it.
            part = parts.pop(0)
            at = len(part) + 1
            if part and not passing:
                place = place if held else _place(piece, 0)
                held += len(part)
                pending = [*pending, part] if held <= max_bytes else []
            if parts:
                if held:
                    yield from _line(b"".join(pending), place, held, max_bytes, piece.suspect)
                pending, held, passing = [], 0, False
                if piece.beyond:
                    return
        if parts:
            last = parts.pop()
            for part in parts:
                if part:
                    yield from _line(part, _place(piece, at), len(part), max_bytes, piece.suspect)
                at += len(part) + 1
            if last:
                pending, held, place = [last] if len(last) <= max_bytes else [], len(last), _place(piece, at)
        if piece.error is not None:
            if piece.beyond:
                return
            # The line that the damage cuts goes with it.
            yield Line(b"", piece.offset, length=piece.end - piece.offset, error=piece.error, spoilt=True)
            pending, held, passing = [], 0, False
    if held:
        yield from _line(b"".join(pending), place, held, max_bytes)


def _place(piece: Piece, at: int) -> tuple[int, int]:
    return (piece.offset + at, -1) if piece.inner < 0 else (piece.offset, piece.inner + at)


def _line(data: bytes, place: tuple[int, int], size: int, max_bytes: int, suspect: bool = False) -> Iterator[Line]:
    length = size if place[1] < 0 else None
    if size > max_bytes:
        error = f"{Reason.TOO_LONG}: a line of {size} bytes, over the limit of {max_bytes}"
        yield Line(b"", *place, length, error)
    elif data and not data.isspace():
        yield Line(data, *place, length, suspect=suspect)
