"""Decoders of one compressed member each: gzip, zstd, bzip2, xz.

A decoder is fed slices of what follows its member's first byte and says how much of them it used, so that the place of
every member in the file is known. Promises that damage is an exception named in `DAMAGE`, never a short output.
"""

from __future__ import annotations

import bz2
import contextlib
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Final

import zstandard

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
#: About as much comes out of one `feed`, where a decoder can be told.
PIECE_BYTES: Final = 1 << 20
#: zlib copies what it did not use of its input, so it is handed little at first: a record's member has about 4 kB.
_GZIP_SLICE: Final = 8 << 10
_GZIP_NEXT: Final = 64 << 10
#: zstd cannot be told to stop after so many bytes and expands up to 32,466 : 1, so it is handed whole blocks, of which each
#: gives at most 128 KiB (RFC 8878, 3.1.1.2.4).
_ZSTD_BLOCK: Final = 128 << 10
_ZSTD_SLICE: Final = 256 << 10
_ZSTD_BLOCKS: Final = PIECE_BYTES // _ZSTD_BLOCK
#: Windows beyond this would not fit into a worker.
_WINDOW_BYTES: Final = 512 << 20


class GzipDecoder:
    """One gzip member; its CRC and length are checked by zlib."""

    # feed: (what came out, how many bytes of `data` were used); raises what DAMAGE names
    # finished: whether the member is complete
    # replay: after `feed` failed, what comes out of `data` before the damage

    magic = GZIP + b"\x08"

    def __init__(self) -> None:
        self.slice_bytes = _GZIP_SLICE
        self._zlib: Any = zlib.decompressobj(31)
        self._before: Any = None
        self._fresh = True

    def feed(self, data: memoryview) -> tuple[bytes, int]:
        if not self._fresh:
            self._before = self._zlib.copy()  # 40 kB: what a second look at damaged data starts from
        out = self._zlib.decompress(data, PIECE_BYTES)
        self._fresh = False
        self.slice_bytes = _GZIP_NEXT
        # At the end of a member whose output came in several parts, zlib names the same rest under both names.
        rest = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
        return out, len(data) - len(rest)

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
        context = zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=_WINDOW_BYTES)
        self._frame = context.decompressobj()
        self._walk = _Blocks()

    def feed(self, data: memoryview) -> tuple[bytes, int]:
        part = data[: self._walk.take(data)]
        out = self._frame.decompress(part)
        return out, len(part) - len(self._frame.unused_data)

    def finished(self) -> bool:
        return bool(self._frame.eof)

    def replay(self, data: memoryview) -> bytes:
        return b""  # a zstd frame cannot be copied, and what was read before it was handed out already


class _Blocks:
    """Walks over a zstd frame's blocks without decoding them (RFC 8878, 3.1.1)."""

    def __init__(self) -> None:
        self._left = -1  # bytes until the next block's header; -1: the frame's own header is still to come
        self._last = False
        self._checksum = 0

    def take(self, data: memoryview) -> int:
        """How many of the frame's next bytes to decode at once: whole blocks, or part of one where the data end in it."""
        if self._left < 0:
            if len(data) < 5:
                return len(data)
            flags = data[4]
            single = flags >> 5 & 1
            self._checksum = 4 * (flags >> 2 & 1)
            self._left = 6 - single + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
        at = self._left
        blocks = 0
        while blocks < _ZSTD_BLOCKS and not self._last and at + 3 <= len(data):
            header = int.from_bytes(data[at : at + 3], "little")
            last = bool(header & 1)
            stored = 1 if header >> 1 & 3 == 1 else header >> 3  # a run of one byte is stored as one
            end = at + 3 + stored + (self._checksum if last else 0)
            if blocks and end > len(data):
                break
            self._last = last
            at = end
            blocks += 1
        n = min(at, len(data))
        self._left = at - n
        return n or len(data)  # none, if less than a header is left of the file


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
            # What it holds of earlier slices gives more; what is left of them behind the end was not used after all.
            return self._stream.decompress(b"", PIECE_BYTES), -len(self._stream.unused_data)
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
        return lzma.LZMADecompressor(memlimit=_WINDOW_BYTES)


AnyDecoder = GzipDecoder | ZstdDecoder | Bz2Decoder
#: What decoders raise on bad data (bz2 an OSError): nothing is read from storage while these are caught.
DAMAGE: Final = (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError, EOFError)


def _until_error(decompress: Callable[[memoryview], bytes], data: memoryview) -> bytes:
    out = bytearray()
    with contextlib.suppress(zlib.error):  # the caller counts the damage; this is what could be saved before it
        for i in range(0, len(data), 64):
            out += decompress(data[i : i + 64])
    return bytes(out)
