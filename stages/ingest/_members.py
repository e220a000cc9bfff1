"""Compressed files as the pieces they were written in: gzip members, zstd frames, bzip2 and xz streams, or plain bytes.

Reads a seekable binary stream, yields `Piece`s. Promises that no byte is passed over in silence: a member that is cut off
or damaged ends in a piece with `error` and the range it spoils, and reading goes on at the next member that opens properly
(warcio and fastwarc lose all that follows a damaged member, and return a cut one as if it were whole). What a file is
called does not matter: its first bytes say what it is. A file read in ranges gives the members of the whole, each once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Final, Literal

import zstandard
from fastwarc.stream_io import Lz4Reader

from stages.ingest._decoders import (
    DAMAGE,
    PIECE_BYTES,
    ZSTD,
    AnyDecoder,
    Bz2Decoder,
    GzipDecoder,
    XzDecoder,
    ZstdDecoder,
)
from stages.ingest._reasons import Reason

LZ4: Final = b"\x04\x22\x4d\x18"
#: zstd skippable frames are 0x184D2A50 to 0x184D2A5F; a WARC's dictionary is in a first frame of the kind 5D
#: (https://iipc.github.io/warc-specifications/specifications/warc-zstd/).
_SKIPPABLE: Final = b"\x2a\x4d\x18"
_DICTIONARY: Final = 0x5D
_DICTIONARY_BYTES: Final = 16 << 20

CUT_OFF: Final = f"{Reason.CUT_OFF}: the file ends inside compressed data"
#: As much of a member as is looked at to tell whether a record starts there: an ARC's first line holds a URL.
OPENING_BYTES: Final = 9_000
_READ_BYTES: Final = 1 << 20
#: A member that holds a compressed file as its payload shows that file's members verbatim, but only in blocks of at most
#: 65,535 bytes (deflate, RFC 1951 3.2.4) or 128 KiB (zstd, RFC 8878 3.1.1.2), between which stand block headers. So members
#: that follow each other for longer are the file's own.
_STORED_BYTES: Final = 128 << 10
#: Where the first member is longer than this, as stored, the file is not read in ranges: too few would find a start.
_PROBE_BYTES: Final = 1 << 20


#: Decoded bytes of a member that are held back until its end has been seen.
AHEAD_BYTES: Final = 64 << 20


@dataclass(slots=True)
class Piece:
    """Uncompressed bytes, and where they came from.

    Attributes:
        data: the bytes.
        offset: where the member starts in the file (in a plain file: where `data` starts).
        inner: where `data` starts in the uncompressed member; -1 in a plain file.
        ends: the member is complete and its checksum right.
        end: offset in the file behind what has been read; with `error`, behind what is spoilt.
        error: why the member's rest is missing.
        suspect: the member is known to be damaged somewhere, perhaps here.
        beyond: belongs to the next range: what was begun before may be finished from it, nothing begun.
    """

    data: bytes
    offset: int
    inner: int
    ends: bool
    end: int
    error: str | None = None
    suspect: bool = False
    beyond: bool = False

    @property
    def damaged(self) -> bool:
        """Whether it ends in damage, so that its last bytes may be wrong; those before a cut are as they were."""
        return self.error is not None and self.error != CUT_OFF

    @property
    def starts(self) -> bool:
        """Whether `data` is the beginning of a member."""
        return self.inner == 0


class Window:
    """A stream looked at through a moving buffer, so that its position is always known."""

    def __init__(self, stream: IO[bytes], offset: int = 0) -> None:
        self._stream = stream
        self._size = stream.seek(0, io.SEEK_END)
        self.seek(offset)

    def size(self) -> int:
        """Bytes of the whole stream."""
        return self._size

    def seek(self, offset: int) -> None:
        """Go anywhere."""
        self._stream.seek(offset)
        self._data = memoryview(b"")
        self._base = offset
        self._at = 0

    def tell(self) -> int:
        """Offset in the stream."""
        return self._base + self._at

    def view(self, n: int) -> memoryview:
        """The next bytes without passing them: `n`, fewer at the end of the stream."""
        if len(self._data) - self._at < n:
            more = self._stream.read(max(n, _READ_BYTES))
            if more:
                kept = self._data[self._at :]
                self._base += self._at
                self._at = 0
                self._data = memoryview(bytes(kept) + more if kept else more)
                if len(self._data) < n:
                    return self.view(n)
        return self._data[self._at : self._at + n]

    def advance(self, n: int) -> None:
        """Pass bytes that `view` showed; a negative number goes back."""
        if n < 0:
            self.seek(self.tell() + n)
        else:
            self._at += n


Opens = Callable[[bytes], bool]
NewDecoder = Callable[[], AnyDecoder]


def pieces(stream: IO[bytes], start: int = 0, end: int | None = None, opens: Opens | None = None) -> Iterator[Piece]:
    """A range of a file: its members from the first that can be entered at or behind `start`.

    With an `end` it goes on behind it; from where the range that starts at `end` takes over, pieces are marked `beyond`, and
    the caller stops when it has finished what it had begun.

    Args:
        stream: seekable.
        start: any offset; 0 for the start of the file.
        end: any offset; None for the end of the file.
        opens: whether a member's first OPENING_BYTES can be the start of one; damage is followed by a search for such.
    """
    window = Window(stream)
    head = bytes(window.view(OPENING_BYTES))
    kind = _kind_of(stream, head)
    if kind is not None:
        yield from _members(window, *kind, start, end, opens)
    elif head.startswith(LZ4):
        # Its reader does not say where frames lie: positions are those of the uncompressed stream.
        yield from _lz4(stream)
    elif opens is not None and head and not opens(head) and (later := _later_kind(window, opens)):
        # Neither compressed nor what was expected, but a member lies further on: the file's first bytes are damaged.
        yield from _members(window, *later, start, end, opens)
    else:
        window.seek(start)
        yield from _plain(window, end)


def layout(stream: IO[bytes]) -> Literal["plain", "members", "whole"]:
    """How a file can be entered in the middle, from its first bytes: anywhere, at members, or not at all."""
    window = Window(stream)
    head = bytes(window.view(8))
    kind = _kind_of(stream, head)
    if kind is None:
        return "whole" if head.startswith(LZ4) else "plain"
    if kind[1] in (GzipDecoder.magic, ZSTD) and _ends_soon(window, kind[0]):
        return "members"
    return "whole"


def _ends_soon(window: Window, decoder: NewDecoder) -> bool:
    """Whether the first member is whole and short."""
    window.seek(0)
    while _is_skippable(head := bytes(window.view(8))):
        window.seek(window.tell() + 8 + int.from_bytes(head[4:], "little"))
    start = window.tell()
    return _passes(window, decoder(), start + _PROBE_BYTES) and window.tell() < window.size()


def _kind_of(stream: IO[bytes], head: bytes) -> tuple[NewDecoder, bytes] | None:
    """Decoder and magic of a file that is compressed in members; None for all others."""
    if head.startswith(GzipDecoder.magic[:2]):
        return GzipDecoder, GzipDecoder.magic
    if head.startswith(ZSTD) or _is_skippable(head[:8]):
        dictionary = _read_dictionary(Window(stream))
        return lambda: ZstdDecoder(dictionary), ZSTD
    if head.startswith(Bz2Decoder.magic):
        return Bz2Decoder, Bz2Decoder.magic
    if head.startswith(XzDecoder.magic[:4]):
        return XzDecoder, XzDecoder.magic
    return None


def _is_skippable(head: bytes) -> bool:
    return head[1:4] == _SKIPPABLE and head[0] & 0xF0 == 0x50 and len(head) == 8


def _later_kind(window: Window, opens: Opens) -> tuple[NewDecoder, bytes] | None:
    """Decoder and magic of the first member that opens properly, wherever it lies."""
    kinds: tuple[tuple[NewDecoder, bytes], ...] = ((GzipDecoder, GzipDecoder.magic), (ZstdDecoder, ZSTD))
    return next((kind for kind in kinds if _find_member(window, *kind, 1, opens) is not None), None)


def _plain(window: Window, end: int | None) -> Iterator[Piece]:
    while True:
        at = window.tell()
        beyond = end is not None and at >= end
        size = PIECE_BYTES if end is None or beyond else min(PIECE_BYTES, end - at)
        data = bytes(window.view(size))
        if not data:
            return
        window.advance(len(data))
        yield Piece(data, at, -1, False, at + len(data), beyond=beyond)


def _lz4(stream: IO[bytes]) -> Iterator[Piece]:
    stream.seek(0)
    reader = Lz4Reader(stream)
    at = 0
    while True:
        try:
            data = reader.read(PIECE_BYTES)
        except OSError as e:
            if e.errno is not None:  # the storage's, not the decoder's
                raise
            error = CUT_OFF if "fill whole buffer" in str(e) else f"{Reason.DAMAGED_COMPRESSION}: {e}"
            yield Piece(b"", at, -1, False, at, error)
            return
        if not data:
            return
        yield Piece(data, at, -1, False, at + len(data))
        at += len(data)


def _members(
    window: Window, decoder: NewDecoder, magic: bytes, start: int, end: int | None, opens: Opens | None
) -> Iterator[Piece]:
    entry = _find_entry(window, decoder, magic, start, end, opens) if start > 0 else 0
    if entry is None:
        return
    window.seek(entry)
    stop: int | None = None
    while True:
        at = window.tell()
        if end is not None and stop is None and at >= end:
            # What the next range that finds an entry looks for, too.
            found = _find_entry(window, decoder, magic, end, None, opens)
            stop = window.size() if found is None else found
            window.seek(at)
        beyond = stop is not None and at >= stop
        head = bytes(window.view(8))
        if not head:
            return
        if _is_skippable(head):
            window.seek(at + 8 + int.from_bytes(head[4:], "little"))
            continue
        problem: str | None = f"{Reason.STRAY_BYTES}: not a compressed member"
        rest, inner = b"", 0
        if head.startswith(magic):
            problem = None
            for piece in _member(window, decoder, at):
                if piece.error is not None:
                    problem, rest, inner = piece.error, piece.data, piece.inner
                    break
                piece.beyond = beyond
                yield piece
        elif (skipped := _padding(window, magic)) is not None:
            window.seek(at + skipped)
            continue
        if problem is None:
            continue
        found = _find_member(window, decoder, magic, at + 1, opens)
        window.seek(found if found is not None else window.size())
        yield Piece(rest, at, inner, False, window.tell(), problem, beyond=beyond)


def _member(window: Window, new_decoder: NewDecoder, at: int) -> Iterator[Piece]:
    """One member in pieces; the last `ends` or has an error.

    Its checksum comes last, when most of a long member would have been handed out. So its end is looked at first: up to
    AHEAD_BYTES by holding the pieces back, beyond that by decoding it twice. Members this long hold a large record, or, in
    files not made to the standard, many.
    """
    held: list[Piece] = []
    size = 0
    suspect: bool | None = None  # not yet known
    for piece in _decoded(window, new_decoder(), at):
        last = piece.ends or piece.error is not None
        if suspect is None:
            held.append(piece)
            size += len(piece.data)
            if not last and size < AHEAD_BYTES:
                continue
            suspect = piece.error not in (None, CUT_OFF) if last else not _intact(window, new_decoder(), at)
        else:
            held = [piece]
        for each in held:
            each.suspect = suspect and not (last and each is piece)
            yield each


def _decoded(window: Window, decoder: AnyDecoder, at: int) -> Iterator[Piece]:
    """The pieces of a member as they are decoded."""
    parts: list[bytes] = []
    held = inner = 0
    while True:
        data = window.view(decoder.slice_bytes)
        try:
            out, used = decoder.feed(data)
        except DAMAGE as e:
            parts.append(decoder.replay(data))
            error = f"{Reason.DAMAGED_COMPRESSION}: {e}"
            yield Piece(b"".join(parts), at, inner, False, window.tell(), error)
            return
        window.advance(used)
        parts.append(out)
        held += len(out)
        if decoder.finished():
            yield Piece(b"".join(parts), at, inner, True, window.tell())
            return
        if not data and not out:
            yield Piece(b"".join(parts), at, inner, False, window.tell(), CUT_OFF)
            return
        if held >= PIECE_BYTES:
            yield Piece(b"".join(parts), at, inner, False, window.tell())
            inner += held
            parts, held = [], 0


def _intact(window: Window, decoder: AnyDecoder, at: int) -> bool:
    """Whether the member at `at` decodes as far as it goes; the window stays where it is."""
    here = window.tell()
    window.seek(at)
    whole = _passes(window, decoder)
    intact = whole or window.tell() == window.size()
    window.seek(here)
    return intact


def _passes(window: Window, decoder: AnyDecoder, limit: int | None = None) -> bool:
    """Go to the end of the member that starts here; False, somewhere inside, if it is damaged, cut, or ends behind `limit`."""
    out, used = b"x", 1
    while (out or used) and not decoder.finished():
        if limit is not None and window.tell() > limit:
            return False
        data = window.view(decoder.slice_bytes)
        try:
            out, used = decoder.feed(data)
        except DAMAGE:
            return False
        window.advance(used)
    return decoder.finished()


def _candidates(window: Window, magic: bytes, start: int, end: int | None) -> Iterator[int]:
    """Offsets in [start, end) at which the magic stands. The window may be moved between two."""
    at = start
    while end is None or at < end:
        window.seek(at)
        data = bytes(window.view(_READ_BYTES))
        if len(data) < len(magic):
            return
        i = data.find(magic)
        while i >= 0 and (end is None or at + i < end):
            yield at + i
            i = data.find(magic, i + 1)
        at += max(1, len(data) - len(magic) + 1)


def _find_member(window: Window, decoder: NewDecoder, magic: bytes, start: int, opens: Opens | None) -> int | None:
    """Offset of the first member at or behind `start` that decodes, None if there is none."""
    found = _candidates(window, magic, start, None)
    return next((at for at in found if _opens(window, decoder(), at, opens)), None)


def _find_entry(
    window: Window, decoder: NewDecoder, magic: bytes, start: int, end: int | None, opens: Opens | None
) -> int | None:
    """Offset of the first member in [start, end) that is certainly one of the file's own, None if there is none.

    It depends on the file's bytes behind `start` alone, so two ranges that meet there agree on who reads what.
    """
    found = _candidates(window, magic, start, end)
    return next((a for a in found if _opens(window, decoder(), a, opens) and _is_own(window, decoder, magic, a)), None)


def _is_own(window: Window, decoder: NewDecoder, magic: bytes, at: int) -> bool:
    """Whether whole members follow each other from here for so long that they are no other member's payload."""
    window.seek(at)
    while window.tell() - at <= _STORED_BYTES:
        here = window.tell()
        head = bytes(window.view(8))
        if not head:
            return True
        if _is_skippable(head):
            window.seek(here + 8 + int.from_bytes(head[4:], "little"))
        elif head.startswith(magic):
            if not _passes(window, decoder()):
                return False
        elif (skipped := _padding(window, magic)) is not None:
            window.seek(here + skipped)
        else:
            return False
    return True


def _opens(window: Window, decoder: AnyDecoder, at: int, opens: Opens | None) -> bool:
    window.seek(at)
    data = window.view(decoder.slice_bytes)
    try:
        out, _ = decoder.feed(data)
    except DAMAGE:
        return False
    return opens is None or opens(out[:OPENING_BYTES])


def _padding(window: Window, magic: bytes) -> int | None:
    """Zero bytes up to a member or the end of the file are ordinary (storage in blocks); any others are damage."""
    start = window.tell()
    while data := window.view(_READ_BYTES):
        zeros = len(data) - len(bytes(data).lstrip(b"\0"))
        window.advance(zeros)
        if zeros < len(data):
            break
    n = window.tell() - start
    rest = bytes(window.view(len(magic)))
    window.seek(start)
    return n if n and rest in (b"", magic) else None


def _read_dictionary(window: Window) -> zstandard.ZstdCompressionDict | None:
    head = bytes(window.view(8))
    if len(head) < 8 or head[0] != _DICTIONARY or head[1:4] != _SKIPPABLE:
        return None
    size = int.from_bytes(head[4:], "little")
    data = bytes(window.view(8 + min(size, _DICTIONARY_BYTES)))[8:]
    if data.startswith(ZSTD):
        data = zstandard.ZstdDecompressor().decompress(data, max_output_size=_DICTIONARY_BYTES)
    return zstandard.ZstdCompressionDict(data)
