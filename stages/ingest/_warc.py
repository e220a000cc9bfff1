"""WARC and ARC records out of pieces of a file, with a completeness check of our own.

Reads `_members.Piece`s, yields `Record`s. Promises that a record is handed out as whole only if its end was seen: cut,
damaged and overlong ones come with `error`, a wrong Content-Length is put right where the record's own border is visible,
and what lies between records is accounted for. Records may lie one per gzip member, many in one, or across several.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from stages.ingest._members import OPENING_BYTES, Piece
from stages.ingest._reasons import Reason

_END: Final = b"\r\n\r\n"
_HEADER: Final = re.compile(r"\n([^:\r\n]+):[ \t]*([^\n]*)")
_FOLD: Final = re.compile(r"\r?\n[ \t]+")
#: Names as writers spell them: there are a dozen in each of a crawl's billions of records.
_NAMES: Final = (
    "WARC-Type WARC-Record-ID WARC-Date WARC-Target-URI WARC-IP-Address WARC-Warcinfo-ID WARC-Concurrent-To "
    "WARC-Block-Digest WARC-Payload-Digest WARC-Identified-Payload-Type WARC-Truncated Content-Type Content-Length"
)
_LOWER: Final = {name: name.lower() for name in _NAMES.split(" ")}
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
        suspect: its member is damaged somewhere, and this record may be where.
    """

    offset: int
    inner: int
    length: int | None
    headers: dict[str, str] = field(default_factory=dict)
    block: bytes | memoryview = b""
    error: str | None = None
    repaired: bool = False
    suspect: bool = False

    @property
    def position(self) -> str:
        """What makes its id unique in the file."""
        return f"{self.offset}+{self.inner}" if self.inner else str(self.offset)


def digest_fits(record: Record) -> bool | None:
    """Whether the block has the digest that its record states; None if it states none that can be checked."""
    name, _, stated = record.headers.get("warc-block-digest", "").partition(":")
    if name.lower() not in ("sha1", "sha256", "sha512", "md5"):
        return None
    digest = hashlib.new(name.lower(), record.block, usedforsecurity=False)
    base32 = base64.b32encode(digest.digest()).decode().rstrip("=")
    return stated.strip().rstrip("=").upper() == base32 or stated.strip().lower() == digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Format:
    """How records are told apart.

    Attributes:
        start: a record's first bytes.
        border: what stands between a record's block and the next record's start.
        reach: a border, and as much of the start as is needed to know it, is at most this long; where the buffer may cut
            one, more must come before it is looked for.
        head_end: what ends the headers.
        terminated: a block is followed by two line ends, which are proof enough that it is whole.
        parse: headers, names in lower case, from a record's first line up to `head_end`.
    """

    start: re.Pattern[bytes]
    border: re.Pattern[bytes]
    reach: int
    head_end: re.Pattern[bytes]
    terminated: bool
    parse: Callable[[bytes], dict[str, str]]


def opens_record(data: bytes) -> bool:
    """Whether a member that begins so begins a record."""
    return _format_of(data) is not None


def _format_of(data: bytes) -> Format | None:
    data = data.lstrip(b"\r\n")
    return WARC if WARC.start.match(data) else ARC if ARC.start.match(data) else None


def records(pieces: Iterable[Piece], max_bytes: int) -> Iterator[Record]:
    """All records of a file, in order; a block over `max_bytes` is an error, and is not held in memory."""
    assembler: _Assembler | None = None
    for piece in pieces:
        if piece.beyond:
            # The next range starts at a member that opens a record, so that nothing of ours goes on in it.
            if assembler is not None:
                yield from assembler.interrupt()
            return
        if assembler is None:
            assembler = _Assembler(_format_of(piece.data[:OPENING_BYTES]) or WARC, max_bytes)
        if piece.starts and piece.ends and assembler.empty():
            record = _whole(piece, max_bytes)
            if record is not None:
                yield record
                continue
        yield from assembler.take(piece)
    if assembler is not None:
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
    return Record(piece.offset, 0, piece.end - piece.offset, headers, memoryview(data)[at:-4])


def parse_headers(block: bytes) -> dict[str, str]:
    """Header lines after the first, names in lower case; of a repeated name the first counts, folded lines are joined."""
    text = block.decode("utf-8", "replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\n " in text or "\n\t" in text:
        text = _FOLD.sub(" ", text)
    if (quick := _plain_headers(text)) is not None:
        return quick
    found = _HEADER.findall(text)
    found.reverse()
    return {name.lower().rstrip(): value.rstrip() for name, value in found}


def _plain_headers(text: str) -> dict[str, str] | None:
    """The headers, if they are written as nearly all are: `Name: value`, no spaces around."""
    if "\r" in text or " \n" in text or "\t" in text or ":  " in text or text.endswith(" "):
        return None
    headers = {}
    for line in reversed(text.split("\n")[1:]):
        name, colon, value = line.partition(": ")
        known = _LOWER.get(name)
        if known is None:
            if not colon or ":" in name:
                return None
            known = name.lower().rstrip()
        headers[known] = value
    return headers


#: ARC 1 (five fields) and 2 (ten), https://archive.org/web/researcher/ArcFileFormat.php; URLs with spaces occur.
_ARC_LINE: Final = re.compile(
    r"(?P<url>.*) (?P<ip>\S+) (?P<date>\d{8,20}) (?P<type>\S+)(?: (?P<status>\d{3}|-) \S+ \S+ \S+ \S+)? (?P<length>\S+)\s*"
)


def _parse_arc(line: bytes) -> dict[str, str]:
    """The WARC headers that say what an ARC record's one line says."""
    found = _ARC_LINE.fullmatch(line.decode("utf-8", "replace"))
    if found is None:
        return {}
    url, date = found["url"], found["date"]
    headers = {"warc-target-uri": url, "content-length": found["length"], "warc-type": "response"}
    if len(date) >= 14:
        headers["warc-date"] = f"{date[:4]}-{date[4:6]}-{date[6:8]}T{date[8:10]}:{date[10:12]}:{date[12:14]}Z"
    if url.startswith("filedesc:"):
        headers["warc-type"] = "filedesc"
    elif url.startswith("dns:"):
        headers["content-type"] = "text/dns"
    return headers


WARC: Final = Format(
    start=re.compile(rb"WARC/[01]\."),
    border=re.compile(rb"\r?\n(?:\r?\n)?(?=WARC/[01]\.)"),
    reach=12,
    head_end=re.compile(rb"\r?\n\r?\n"),
    terminated=True,
    parse=parse_headers,
)
_ARC_START: Final = rb"[a-z][a-z0-9+.\-]{1,20}:[^\r\n]{0,8192} [0-9a-fA-F.:]{1,45} [0-9]{8,20} [^\r\n]{1,300}\n"
ARC: Final = Format(
    start=re.compile(_ARC_START),
    border=re.compile(rb"\n(?=" + _ARC_START + rb")"),
    reach=9000,
    head_end=re.compile(rb"\n"),
    terminated=False,
    parse=_parse_arc,
)


def _content_length(headers: dict[str, str]) -> int | None:
    value = headers.get("content-length", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None


class _Assembler:
    """Bytes not yet made into records, each with its place in the file."""

    def __init__(self, kind: Format, max_bytes: int) -> None:
        self._format = kind
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
        if piece.starts and not self.empty() and opens_record(piece.data[:OPENING_BYTES]):
            # A record may go on in the next member, but then that does not begin as a record does.
            yield from self.interrupt()
        self._append(piece)
        done = list(self._drain(final=piece.error is not None))
        if piece.ends and done and self.empty() and done[-1].inner == 0 and done[-1].offset == piece.offset:
            done[-1].length = piece.end - piece.offset
        if piece.error is not None:
            # The last record of a damaged member is not to be trusted even if it looks whole.
            suspect = done.pop() if done and self.empty() else None
            yield from done
            yield self._damaged(piece, suspect)
            return
        yield from done

    def interrupt(self) -> Iterator[Record]:
        """What is pending when the next record starts in a member of its own."""
        if not self.empty():
            yield from self._flush(f"{Reason.CUT_OFF}: the next record starts before its end")

    def finish(self) -> Iterator[Record]:
        """What is pending when the file ends."""
        yield from self._drain(final=True)
        yield from self._flush(f"{Reason.CUT_OFF}: the file ends before the record does")

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
        """Records that are complete. `final`: nothing can follow what is in the buffer."""
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
        border = self._format.border.search(self._buffer, self._at)
        available = len(self._buffer) - self._at
        if border is not None and border.start() - self._at < left:
            self._at = border.end()
            self._skip = None
            return True
        step = min(left, available if final else max(0, available - self._format.reach))
        self._at += step
        self._skip = (record, left - step) if left > step else None
        return self._skip is None

    def _to_start(self, final: bool) -> bool:
        """Go to the next record's first byte; False if it is not in the buffer. What is passed is noted as lost."""
        buffer = self._buffer
        while self._at < len(buffer) and buffer[self._at] in b"\r\n":
            self._at += 1
        if self._format.start.match(buffer, self._at):
            return True
        if not final and len(buffer) - self._at < self._format.reach:
            return False
        border = self._format.border.search(buffer, self._at)
        to = border.end() if border else len(buffer) if final else len(buffer) - self._format.reach
        if to > self._at:
            if self._lost is None:
                self._lost = self._record(self._at, to, f"{Reason.STRAY_BYTES}: bytes between two records")
            elif self._lost.length is not None:
                self._lost.length += to - self._at
            self._at = to
        return border is not None

    def _next(self, final: bool) -> Record | None:
        """The record at the start of the buffer; None if more of it has to come, or it is passed over."""
        buffer, start = self._buffer, self._at
        blank = self._format.head_end.search(buffer, start, start + MAX_HEAD_BYTES)
        if blank is None:
            if len(buffer) - start >= MAX_HEAD_BYTES:
                self._pass_over(f"{Reason.BROKEN_HEADER}: a header block without end")
            return None
        headers = self._format.parse(bytes(buffer[start : blank.start()]))
        length = _content_length(headers)
        if length is None:
            return self._mended(start, blank.end(), headers, final)
        body, end = blank.end(), blank.end() + length
        if length > self._max:
            record = self._record(start, end, f"{Reason.TOO_LONG}: {length} bytes, over the limit of {self._max}")
            record.headers = headers
            self._skip = (record, length)
            self._at = body
            return None
        if len(buffer) < end:
            return None
        after = bytes(buffer[end : end + self._format.reach])
        ended = final or self._marks[-1][1].ends
        if (self._format.terminated and after.startswith(_END)) or (ended and not after.strip(b"\r\n")):
            return self._made(start, body, end, end, headers)
        if len(buffer) < end + self._format.reach and not final:
            return None
        if self._format.start.match(after.lstrip(b"\r\n")):
            return self._made(start, body, end, end, headers)
        return self._mended(start, body, headers, final)

    def _mended(self, start: int, body: int, headers: dict[str, str], final: bool) -> Record | None:
        """A record whose Content-Length leads nowhere, up to the border that can be seen; None if it must still come."""
        border = self._format.border.search(self._buffer, max(body, self._scanned))
        if border is None and not final:
            self._scanned = max(body, len(self._buffer) - self._format.reach)
            if self._scanned - body > self._max:
                self._pass_over(f"{Reason.BROKEN_LENGTH}: wrong Content-Length, and no end in sight")
            return None
        end = border.start() if border else len(self._buffer) - (4 if self._buffer.endswith(_END) else 0)
        record = self._made(start, body, end, border.end() if border else len(self._buffer), headers)
        record.repaired = True
        return record

    def _made(self, start: int, body: int, end: int, to: int, headers: dict[str, str]) -> Record:
        record = self._record(start, to)
        record.headers = headers
        record.block = bytes(self._buffer[body:end])
        last = self._marks[-1][1]
        record.suspect = last.suspect or last.damaged
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
            pending = self._unfinished(error)
        if pending is not None:
            yield pending
        self._lost = self._skip = None
        self._at = len(self._buffer)

    def _unfinished(self, error: str | None = None) -> Record:
        """What is left in the buffer as one record, with its headers where they are whole: people ask for it by its URL."""
        record = self._record(self._at, len(self._buffer), error)
        blank = self._format.head_end.search(self._buffer, self._at, self._at + MAX_HEAD_BYTES)
        if blank is not None and self._format.start.match(self._buffer, self._at):
            record.headers = self._format.parse(bytes(self._buffer[self._at : blank.start()]))
        return record

    def _late(self) -> Record | None:
        """The pending record, if it has an end before the one its Content-Length claims."""
        blank = self._format.head_end.search(self._buffer, self._at, self._at + MAX_HEAD_BYTES)
        if blank is None or not self._format.start.match(self._buffer, self._at):
            return None
        headers = self._format.parse(bytes(self._buffer[self._at : blank.start()]))
        # A complete gzip member that ends as a record ends holds the whole record, whatever the length says.
        complete = self._marks[-1][1].ends and self._buffer.endswith(_END)
        if complete or self._format.border.search(self._buffer, blank.end()) is not None:
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
            record = self._unfinished()
        else:
            record = Record(piece.offset, max(piece.inner, 0) + len(piece.data), None)
        record.length = piece.end - record.offset if record.inner == 0 or record.offset != piece.offset else None
        record.error = piece.error
        self._lost = self._skip = None
        self._at = len(self._buffer)
        return record
