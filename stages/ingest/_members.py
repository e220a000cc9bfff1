"""Compressed files as the pieces they were written in: gzip members, zstd frames, bzip2 and xz streams, or plain bytes.

Reads a seekable binary stream, yields `Piece`s. Promises that no byte is passed over in silence: a member that is cut off
or damaged ends in a piece with `error` and the range it spoils, and reading goes on at the next member that opens properly
(warcio and fastwarc lose all that follows a damaged member, and return a cut one as if it were whole). What a file is
called does not matter: its first bytes say what it is.
"""

from __future__ import annotations

import bz2
import contextlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final, cast

import zstandard
from fastwarc.stream_io import Lz4Reader

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
LZ4: Final = b"\x04\x22\x4d\x18"
#: zstd skippable frames are 0x184D2A50 to 0x184D2A5F; a WARC's dictionary is in a first frame of the kind 5D
#: (https://iipc.github.io/warc-specifications/specifications/warc-zstd/).
_SKIPPABLE: Final = b"\x2a\x4d\x18"
_DICTIONARY: Final = 0x5D

CUT_OFF: Final = "cut off: the file ends inside compressed data"
#: Pieces of a long member have about this many bytes.
PIECE_BYTES: Final = 1 << 20
_READ_BYTES: Final = 1 << 20
#: zlib copies what it did not use of its input, so it is handed little: a record's member has about 4 kB.
_GZIP_SLICE: Final = 32 << 10
#: zstd cannot be told to stop after so many bytes and expands up to 32,466 : 1: 64 MB at most come out of one slice.
_ZSTD_SLICE: Final = 2 << 10
#: Windows beyond this would not fit into a worker.
_ZSTD_WINDOW: Final = 512 << 20
_DICTIONARY_BYTES: Final = 16 << 20


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
    """

    data: bytes
    offset: int
    inner: int
    ends: bool
    end: int
    error: str | None = None
    suspect: bool = False

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
        self.seek(offset)

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
        """Pass bytes that `view` showed."""
        self._at += n


class GzipDecoder:
    """One gzip member; its CRC and length are checked by zlib."""

    # feed: (what came out, how many bytes of `data` were used); raises what DAMAGE names
    # finished: whether the member is complete
    # replay: after `feed` failed, what comes out of `data` before the damage

    slice_bytes = _GZIP_SLICE
    magic = GZIP + b"\x08"

    def __init__(self) -> None:
        self._zlib: Any = zlib.decompressobj(31)
        self._before: Any = None
        self._fresh = True

    def feed(self, data: memoryview) -> tuple[bytes, int]:
        if not self._fresh:
            self._before = self._zlib.copy()  # 40 kB: what a second look at damaged data starts from
        out = self._zlib.decompress(data, PIECE_BYTES)
        self._fresh = False
        return out, len(data) - len(self._zlib.unconsumed_tail) - len(self._zlib.unused_data)

    def finished(self) -> bool:
        return bool(self._zlib.eof)

    def replay(self, data: memoryview) -> bytes:
        again = self._before or zlib.decompressobj(31)
        return _until_error(again.decompress, data)


class ZstdDecoder:
    """One zstd frame."""

    slice_bytes = _ZSTD_SLICE
    magic = ZSTD

    def __init__(self, dictionary: zstandard.ZstdCompressionDict | None = None) -> None:
        context = zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=_ZSTD_WINDOW)
        self._frame = context.decompressobj()

    def feed(self, data: memoryview) -> tuple[bytes, int]:
        out = self._frame.decompress(data)
        return out, len(data) - len(self._frame.unused_data)

    def finished(self) -> bool:
        return bool(self._frame.eof)

    def replay(self, data: memoryview) -> bytes:
        return b""  # a slice is small, and a zstd frame cannot be copied


class Bz2Decoder:
    """One bzip2 stream."""

    slice_bytes = 64 << 10
    magic = b"BZh"

    def __init__(self) -> None:
        self._stream: Any = self._open()

    def _open(self) -> Any:
        return bz2.BZ2Decompressor()

    def feed(self, data: memoryview) -> tuple[bytes, int]:
        if not self._stream.needs_input:
            return self._stream.decompress(b"", PIECE_BYTES), 0
        out = self._stream.decompress(data, PIECE_BYTES)
        return out, len(data) - len(self._stream.unused_data)

    def finished(self) -> bool:
        return bool(self._stream.eof)

    def replay(self, data: memoryview) -> bytes:
        return b""


class XzDecoder(Bz2Decoder):
    """One xz stream."""

    magic = b"\xfd7zXZ\x00"

    def _open(self) -> Any:
        return lzma.LZMADecompressor(memlimit=_ZSTD_WINDOW)


AnyDecoder = GzipDecoder | ZstdDecoder | Bz2Decoder
#: What decoders raise on bad data (bz2 an OSError): nothing is read from storage while these are caught.
_DAMAGE: Final = (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError, EOFError)


def _until_error(decompress: Callable[[memoryview], bytes], data: memoryview) -> bytes:
    out = bytearray()
    with contextlib.suppress(zlib.error):  # the caller counts the damage; this is what could be saved before it
        for i in range(0, len(data), 64):
            out += decompress(data[i : i + 64])
    return bytes(out)


def pieces(
    stream: IO[bytes], start: int = 0, end: int | None = None, opens: Callable[[bytes], bool] | None = None
) -> Iterator[Piece]:
    """The members of a file that start in [start, end).

    Args:
        stream: seekable.
        start: a member border, or any offset: then reading begins at the first member that opens properly behind it.
        end: None for the end of the file.
        opens: whether a member's first bytes (up to 64) can be the start of one; damage is followed by a search for such.
    """
    window = Window(stream)
    head = bytes(window.view(4))
    window.seek(start)
    if head[:2] == GZIP:
        yield from _members(window, GzipDecoder, GzipDecoder.magic, start, end, opens)
    elif head == ZSTD or (head[1:] == _SKIPPABLE and head[0] & 0xF0 == 0x50):
        dictionary = _read_dictionary(Window(stream))
        window.seek(start)
        yield from _members(window, lambda: ZstdDecoder(dictionary), ZSTD, start, end, opens)
    elif head[:3] == Bz2Decoder.magic:
        yield from _members(window, Bz2Decoder, Bz2Decoder.magic, start, end, opens)
    elif head == XzDecoder.magic[:4]:
        yield from _members(window, XzDecoder, XzDecoder.magic, start, end, opens)
    elif head == LZ4:
        # Its reader does not say where frames lie: positions are those of the uncompressed stream.
        yield from _plain(Window(cast(IO[bytes], Lz4Reader(stream))), None)
    elif opens is not None and head and not opens(bytes(window.view(4096))) and (kind := _later_kind(window, opens)):
        # Neither compressed nor what was expected, but a member lies further on: the file's first bytes are damaged.
        window.seek(start)
        yield from _members(window, *kind, start, end, opens)
    else:
        window.seek(start)
        yield from _plain(window, end)


def _later_kind(window: Window, opens: Callable[[bytes], bool]) -> tuple[Callable[[], AnyDecoder], bytes] | None:
    """Decoder and magic of the first member that opens properly, wherever it lies."""
    kinds: tuple[tuple[Callable[[], AnyDecoder], bytes], ...] = (
        (GzipDecoder, GzipDecoder.magic),
        (ZstdDecoder, ZSTD),
    )
    return next((kind for kind in kinds if _find_member(window, *kind, 1, opens) is not None), None)


def _plain(window: Window, end: int | None) -> Iterator[Piece]:
    while True:
        at = window.tell()
        size = PIECE_BYTES if end is None else min(PIECE_BYTES, end - at)
        data = bytes(window.view(size)) if size > 0 else b""
        if not data:
            return
        window.advance(len(data))
        yield Piece(data, at, -1, False, at + len(data))


def _members(
    window: Window,
    decoder: Callable[[], AnyDecoder],
    magic: bytes,
    start: int,
    end: int | None,
    opens: Callable[[bytes], bool] | None,
) -> Iterator[Piece]:
    if start > 0:
        found = _find_member(window, decoder, magic, start, opens)
        if found is None:
            return
        window.seek(found)
    while end is None or window.tell() < end:
        at = window.tell()
        head = bytes(window.view(8))
        if not head:
            return
        if head[1:4] == _SKIPPABLE and head[0] & 0xF0 == 0x50 and len(head) == 8:
            window.seek(at + 8 + int.from_bytes(head[4:], "little"))
            continue
        problem: str | None = "not a compressed member"
        rest, inner = b"", 0
        if head.startswith(magic):
            problem = None
            for piece in _member(window, decoder, at):
                if piece.error is not None:
                    problem, rest, inner = piece.error, piece.data, piece.inner
                    break
                yield piece
        elif (skipped := _padding(window, magic)) is not None:
            window.seek(at + skipped)
            continue
        if problem is None:
            continue
        found = _find_member(window, decoder, magic, at + 1, opens)
        window.seek(found if found is not None else _size(window))
        yield Piece(rest, at, inner, False, window.tell(), problem)


def _member(window: Window, new_decoder: Callable[[], AnyDecoder], at: int) -> Iterator[Piece]:
    """One member in pieces; the last `ends` or has an error."""
    decoder = new_decoder()
    parts: list[bytes] = []
    held = inner = 0
    suspect = False
    while True:
        data = window.view(decoder.slice_bytes)
        try:
            out, used = decoder.feed(data)
        except _DAMAGE as e:
            parts.append(decoder.replay(data))
            yield Piece(b"".join(parts), at, inner, False, window.tell(), f"damaged compressed data ({e})")
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
            if inner == 0:
                # Its checksum comes last, when most of it has been handed out: so it is looked at in advance. Members
                # this long hold a large record, or, in files not made to the standard, many.
                suspect = not _intact(window, new_decoder(), at)
            yield Piece(b"".join(parts), at, inner, False, window.tell(), None, suspect)
            inner += held
            parts, held = [], 0


def _intact(window: Window, decoder: AnyDecoder, at: int) -> bool:
    """Whether the member at `at` decodes as far as it goes; the window stays where it is."""
    here = window.tell()
    window.seek(at)
    out, used = b"x", 1
    while (out or used) and not decoder.finished():
        data = window.view(decoder.slice_bytes)
        try:
            out, used = decoder.feed(data)
        except _DAMAGE:
            window.seek(here)
            return False
        window.advance(used)
    window.seek(here)
    return True


def _find_member(
    window: Window,
    decoder: Callable[[], AnyDecoder],
    magic: bytes,
    start: int,
    opens: Callable[[bytes], bool] | None,
) -> int | None:
    """Offset of the first member at or behind `start` that decodes, None if there is none."""
    at = start
    while True:
        window.seek(at)
        data = bytes(window.view(_READ_BYTES))
        if len(data) < len(magic):
            return None
        i = data.find(magic)
        while i >= 0:
            if _opens(window, decoder(), at + i, opens):
                return at + i
            i = data.find(magic, i + 1)
        at += max(1, len(data) - len(magic) + 1)


def _opens(window: Window, decoder: AnyDecoder, at: int, opens: Callable[[bytes], bool] | None) -> bool:
    window.seek(at)
    data = window.view(decoder.slice_bytes)
    try:
        out, _ = decoder.feed(data)
    except _DAMAGE:
        return False
    return opens is None or opens(out[:64])


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


def _size(window: Window) -> int:
    while data := window.view(_READ_BYTES):
        window.advance(len(data))
    return window.tell()


def _read_dictionary(window: Window) -> zstandard.ZstdCompressionDict | None:
    head = bytes(window.view(8))
    if len(head) < 8 or head[0] != _DICTIONARY or head[1:4] != _SKIPPABLE:
        return None
    size = int.from_bytes(head[4:], "little")
    data = bytes(window.view(8 + min(size, _DICTIONARY_BYTES)))[8:]
    if data.startswith(ZSTD):
        data = zstandard.ZstdDecompressor().decompress(data, max_output_size=_DICTIONARY_BYTES)
    return zstandard.ZstdCompressionDict(data)
