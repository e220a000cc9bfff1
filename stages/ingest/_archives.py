"""Members of tar and zip archives, read where they lie: nothing is ever unpacked, so no name can lead anywhere.

Reads a seekable stream, yields `Member`s. Promises that every member is yielded, that damage costs the members it lies in
(tar: reading goes on at the next header), that no archive expands beyond `bomb_bytes`, and that the ranges between `cuts` give
the members of the whole. Sources: POSIX.1-2001 pax and GNU tar's manual for headers; APPNOTE.TXT for zip, read by `zipfile`.
"""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Final

from stages.ingest._decoders import PIECE_BYTES
from stages.ingest._members import AHEAD_BYTES, Piece, layout, pieces
from stages.ingest._reasons import Reason

_BLOCK: Final = 512
#: Long names and pax records with more bytes than this are damage.
_HEADER_BYTES: Final = 1 << 20
#: Where no header is found for so many bytes, a tar is not cut any further: listing the input must not read it.
_LOST_BYTES: Final = 16 << 20
#: What `meta` says, under `unverified`, of documents that may be garbage: a tar has checksums of headers only.
UNVERIFIED: Final = "the checksum of its compressed archive is wrong"
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
#: What zipfile raises on damaged or unknown data.
_ZIP_DAMAGE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)


@dataclass(slots=True)
class Member:
    """A member, or a stretch of the archive that is none.

    Attributes:
        position: what makes its id unique in the archive: its offset in an uncompressed tar, its number elsewhere.
        name: as written, for people and addresses.
        size: bytes, as its header says.
        offset: where its header starts in the file; None inside of a compressed tar.
        place: where its bytes start in the file; None where it does not hold them as they are, all of them.
        data: its bytes, in pieces; must be read before the next member is asked for, or is passed over.
        suspect: whether what has been read of it came out of compressed data that are damaged somewhere, perhaps there.
        skipped: why it has none.
        error: why it cannot be read.
    """

    position: int
    name: str
    size: int
    offset: int | None
    place: int | None = None
    data: Iterator[Piece] = field(default_factory=lambda: iter(()))
    suspect: Callable[[], bool] = bool
    skipped: str | None = None
    error: str | None = None


class Damage(Exception):
    """The archive's own bytes cannot be read; the message is `reason: detail`."""


def bomb_bytes(stored: int) -> int:
    """What an archive of so many bytes may expand to. Text compresses 3 to 20 fold, a bomb 1,000 fold and more."""
    return max(1 << 30, 200 * stored)


def members(stream: IO[bytes], stored: int, start: int = 0, end: int | None = None) -> Iterator[Member]:
    """Every member of an archive, in the order it has them.

    Args:
        stream: seekable.
        stored: bytes of the archive.
        start: one of its `cuts`, or 0.
        end: another one, where the next range starts; None for the end of the archive.
    """
    head = stream.read(4)
    stream.seek(0)
    if head in _ZIP:
        yield from _zip(stream, bomb_bytes(stored))
    else:
        yield from _tar(stream, stored, start, end)


def cuts(stream: IO[bytes], size: int, parts: int) -> list[int]:
    """Offsets of members at which an uncompressed tar falls into `parts` ranges of about equal size; none for other files.

    Headers are followed from the first to the last, 512 bytes of each member: a tar may hold a tar, whose headers look like its
    own for as long as one cares to look, so nothing that lies around an offset tells whose they are.
    """
    stream.seek(0)
    if stream.read(4) in _ZIP or layout(stream) != "plain":
        return []
    flow = _Hops(stream, size)
    found: list[int] = []
    bound = 1
    try:
        for start, header, _ in _headers(flow):
            flow.lost = 0
            if header is None:
                if start == 0:
                    return []
                continue
            if start > 0 and start * parts >= bound * size:
                found.append(start)
                bound = start * parts // size + 1
            flow.skip(header.size + -header.size % _BLOCK)
    except Damage:
        pass
    return found


def _zip(stream: IO[bytes], limit: int) -> Iterator[Member]:
    try:
        archive = zipfile.ZipFile(stream)
    except _ZIP_DAMAGE as e:
        _raise_if_storage(e)
        yield Member(0, "", 0, 0, error=f"{Reason.NOT_AN_ARCHIVE}: a zip without a readable directory ({_said(e)})")
        return
    left = [limit]
    with archive:
        for index, info in enumerate(archive.infolist()):
            if info.is_dir():
                continue
            member = Member(index, info.filename, info.file_size, info.header_offset)
            if info.flag_bits & 1:
                member.error = f"{Reason.UNSAFE_MEMBER}: it is encrypted"
            elif info.external_attr >> 28 not in (0, 8):  # a Unix mode that is no regular file's
                member.skipped = "not_a_file"
            else:
                member.data = _zip_data(archive, info, left)
            yield member


def _zip_data(archive: zipfile.ZipFile, info: zipfile.ZipInfo, left: list[int]) -> Iterator[Piece]:
    """The bytes of a member. Its checksum comes last, so they are held back until it is seen, up to AHEAD_BYTES; a longer
    member is read twice."""
    held: list[Piece] = []
    size = 0
    suspect: bool | None = None  # not yet known
    for piece in _zip_pieces(archive, info, left):
        size += len(piece.data)
        if suspect is None:
            held.append(piece)
            if piece.error is None and size < AHEAD_BYTES:
                continue
            spoilt = (p.error is not None for p in ([piece] if piece.error else _zip_pieces(archive, info, [left[0]])))
            suspect = any(spoilt)
        else:
            held = [piece]
        for each in held:
            each.suspect = suspect and each.error is None
            yield each
    if suspect is None:
        yield from held


def _zip_pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo, left: list[int]) -> Iterator[Piece]:
    at = 0
    try:
        with archive.open(info) as stream:
            while data := stream.read(PIECE_BYTES):
                left[0] -= len(data)
                if left[0] < 0:
                    yield Piece(b"", at, -1, False, at, f"{Reason.BOMB}: the archive expands beyond any honest ratio")
                    return
                yield Piece(data, at, -1, False, at + len(data))
                at += len(data)
    except _ZIP_DAMAGE as e:
        _raise_if_storage(e)
        yield Piece(b"", at, -1, False, at, f"{Reason.DAMAGED_MEMBER}: {_said(e)}")


def _raise_if_storage(e: BaseException) -> None:
    if isinstance(e, OSError) and e.errno is not None and not isinstance(e, zipfile.BadZipFile):
        # zipfile seeks where a damaged directory says, which fails as if the file were at fault.
        if e.errno == 22:
            return
        raise e


def _said(e: BaseException) -> str:
    return (str(e) or type(e).__name__)[:200]


class _Flow:
    """The uncompressed bytes of a tar, from front to back."""

    def __init__(self, stream: IO[bytes], limit: int, start: int) -> None:
        self._pieces = pieces(stream, start)
        self._data = memoryview(b"")
        self._error: str | None = None
        self._limit = limit
        self._suspect = self._touched = False
        self.at = start
        self.plain = True

    def begin(self) -> None:
        """What is read from here on is another member's."""
        self._touched = self._suspect

    def suspect(self) -> bool:
        """Whether a piece read since `begin` is of compressed data that are damaged."""
        return self._touched

    def read(self, n: int) -> bytes:
        """Up to `n` bytes, fewer only at the end.

        Raises:
            Damage: the compressed data are damaged, or expand too far.
        """
        parts = []
        while n > 0:
            if not self._data:
                if self._error is not None:
                    raise Damage(self._error)
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self.plain = piece.inner < 0
                self._error = piece.error
                self._suspect = piece.suspect
                self._touched |= piece.suspect
                self._data = memoryview(b"" if piece.damaged else piece.data)
                continue
            part = bytes(self._data[:n])
            self._data = self._data[len(part) :]
            parts.append(part)
            n -= len(part)
            self.at += len(part)
            if self.at > self._limit:
                raise Damage(f"{Reason.BOMB}: the archive expands beyond any honest ratio")
        return b"".join(parts)

    def skip(self, n: int) -> None:
        """Pass `n` bytes, fewer only at the end."""
        while n > 0 and (data := self.read(min(n, PIECE_BYTES))):
            n -= len(data)


class _Hops:
    """The same of a tar that is not compressed, where what is skipped is not read."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream = stream
        self._size = size
        self.at = 0
        self.lost = 0  # bytes read since it was set to 0

    def read(self, n: int) -> bytes:
        """Up to `n` bytes, fewer only at the end.

        Raises:
            Damage: nothing of use for too long.
        """
        self._stream.seek(self.at)
        data = self._stream.read(n)
        self.at += len(data)
        self.lost += len(data)
        if self.lost > _LOST_BYTES:
            raise Damage(f"{Reason.STRAY_BYTES}: no header within {_LOST_BYTES} bytes")
        return data

    def skip(self, n: int) -> None:
        """Pass `n` bytes, fewer only at the end."""
        self.at = min(self._size, self.at + n)


@dataclass(slots=True)
class _Header:
    name: str
    size: int
    kind: bytes


def _tar(stream: IO[bytes], stored: int, begin: int, end: int | None) -> Iterator[Member]:
    flow = _Flow(stream, bomb_bytes(stored), begin)
    index = 0
    try:
        for start, header, problem in _headers(flow):
            if end is not None and start >= end:
                return
            place = start if flow.plain else None
            position = index if place is None else place
            if header is None:
                reason = Reason.STRAY_BYTES if index or begin else Reason.NOT_AN_ARCHIVE
                yield Member(position, "", 0, place, error=f"{reason}: {problem}")
                index += 1
                continue
            if header.kind == b"5":
                continue
            member = Member(position, header.name, header.size, place, suspect=flow.suspect)
            index += 1
            flow.begin()
            rest = [header.size]
            if header.kind in b"0\x007":
                member.data = _tar_data(flow, rest)
                member.place = flow.at if flow.plain and flow.at + header.size <= stored else None
            else:
                member.skipped = "not_a_file"
            yield member
            flow.skip(rest[0])
            flow.skip(-header.size % _BLOCK)
    except Damage as e:
        place = flow.at if flow.plain else None
        yield Member(index if place is None else place, "", 0, place, error=str(e))


def _headers(flow: _Flow | _Hops) -> Iterator[tuple[int, _Header | None, str]]:
    """(where it starts, a member's header, why it is none). The flow stands behind it, at the member's data."""
    name: str | None = None
    size: int | None = None
    lost: int | None = None
    start = flow.at
    while block := flow.read(_BLOCK):
        if name is None and size is None:
            start = flow.at - len(block)
        header = _parse(block)
        if header is None:
            if block.strip(b"\0") and lost is None:
                lost, name, size = start, None, None
                yield start, None, "no header of a member where one should be"
            continue
        lost = None
        if header.kind in b"LKxg":
            data = flow.read(header.size) if header.size <= _HEADER_BYTES else b""
            flow.skip(header.size - len(data) + -header.size % _BLOCK)
            if header.kind == b"L":
                name = data.rstrip(b"\0").decode("utf-8", "replace")
            elif header.kind == b"x":
                said = _pax(data)
                name = said.get("path", name)
                size = int(said["size"]) if said.get("size", "").isdecimal() else size
            continue
        header.name = header.name if name is None else name
        header.size = header.size if size is None else size
        if header.kind in b"123456":
            header.size = 0  # links, devices and folders have no data, whatever size some writers state
        yield start, header, ""
        name = size = None


def _tar_data(flow: _Flow, rest: list[int]) -> Iterator[Piece]:
    """The next `rest[0]` bytes; damage ends the archive, and is told by its own member, too."""
    at = 0
    while rest[0] > 0:
        n = min(rest[0], PIECE_BYTES)
        try:
            data = flow.read(n)
        except Damage as e:
            rest[0] = 0
            yield Piece(b"", at, -1, False, at, f"{Reason.DAMAGED_MEMBER}: {e}")
            return
        rest[0] -= len(data)
        if len(data) < n:
            rest[0] = 0
            yield Piece(b"", at, -1, False, at, f"{Reason.CUT_OFF}: the archive ends inside of the member")
            return
        yield Piece(data, at, -1, False, at + n)
        at += n


def _parse(block: bytes) -> _Header | None:
    """A header block; None if its checksum does not fit."""
    if len(block) < _BLOCK:
        return None
    stated = _number(block[148:156])
    if stated is None or stated != sum(block[:148]) + 8 * 32 + sum(block[156:]):
        return None
    size = _number(block[124:136])
    if size is None:
        return None
    name = block[:100].partition(b"\0")[0]
    if block[257:263] == b"ustar\0" and (prefix := block[345:500].partition(b"\0")[0]):
        name = prefix + b"/" + name
    return _Header(name.decode("utf-8", "replace"), size, block[156:157])


def _number(field: bytes) -> int | None:
    """Octal digits, or GNU's base 256 where the first bit is set."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:])
    digits = field.strip(b" \0")
    return int(digits or b"0", 8) if not digits.strip(b"01234567") else None


def _pax(data: bytes) -> dict[str, str]:
    """Records of `length key=value`; what does not fit ends them."""
    found = {}
    while data:
        length, space, _ = data.partition(b" ")
        if not space or not length.isdigit() or len(length) > 8 or not len(length) + 1 < int(length) <= len(data):
            break
        key, _, value = data[len(length) + 1 : int(length) - 1].partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        data = data[int(length) :]
    return found
