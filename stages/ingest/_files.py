"""Files that are documents: what a name says of one, the address it had, and its bytes whole.

Names come from people's folders and strangers' archives: they decide how bytes are read and become part of an address, but
never a path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal
from urllib.parse import quote

from stages.ingest._members import Piece
from stages.ingest._reasons import Reason

#: `warc` to `arrow` are containers of documents, `other` is none of ours, `unknown` a name that says nothing.
Kind = Literal["page", "text", "jsonl", "warc", "csv", "parquet", "arrow", "other", "unknown"]
_COMPRESSIONS: Final = (".gz", ".zst", ".bz2", ".xz", ".lz4")
_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("html", "htm", "xhtml", "xht", "shtml", "phtml", "php", "asp", "aspx", "jsp"), "page"),
    **dict.fromkeys(("txt", "text", "md", "rst"), "text"),
    **dict.fromkeys(("jsonl", "ndjson", "jsonlines"), "jsonl"),
    **dict.fromkeys(("warc", "arc", "wet"), "warc"),
    **dict.fromkeys(("csv", "tsv"), "csv"),
    "parquet": "parquet",
    **dict.fromkeys(("arrow", "feather"), "arrow"),
    **dict.fromkeys(
        ("css", "js", "json", "xml", "svg", "png", "jpg", "jpeg", "gif", "webp", "ico", "woff", "woff2"), "other"
    ),
    **dict.fromkeys(("pdf", "zip", "tar", "mp3", "mp4", "ttf", "eot", "map"), "other"),
}


def kind_of_name(name: str) -> Kind:
    """What a file is by the end of its name, a compression's not counted; `unknown` without one."""
    last = name.rpartition("/")[2].lower()
    for end in _COMPRESSIONS:
        last = last.removesuffix(end)
    stem, dot, ending = last.rpartition(".")
    return _KINDS.get(ending, "unknown") if dot and stem else "unknown"


def url_of(base: str | None, name: str) -> str | None:
    """The address of a file below `base`; None without one, or where the name leads out of it."""
    if base is None or name.startswith("/") or ".." in name.split("/"):
        return None
    for end in _COMPRESSIONS:
        name = name.removesuffix(end)
    # What is percent-encoded in the name was so in the address: crawlers that mirror keep it.
    return base + ("" if base.endswith("/") else "/") + quote(name, safe="/%:@!$&'()*+,;=~")


def whole(found: Iterable[Piece], max_bytes: int) -> tuple[int, bytes, str | None]:
    """(offset, bytes, error) of a file that is one document; with an error, no bytes, and where the damage is."""
    parts: list[bytes] = []
    size = 0
    for piece in found:
        if piece.error is not None:
            return piece.offset, b"", piece.error
        size += len(piece.data)
        if size > max_bytes:
            return 0, b"", f"{Reason.TOO_LONG}: more than {max_bytes} bytes"
        parts.append(piece.data)
    return 0, b"".join(parts), None
