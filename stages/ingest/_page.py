"""What happens to one page in the sandbox: codings undone, decoded, checked, parsed, its main text taken.

Runs in the child process only (`corpusflow.Sandbox`). Reads a header {type, coding} and the body as stored; answers
{outcome, charset} and the text and title in UTF-8. A pure function of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from stages.kernels.charset import decode
from stages.kernels.html import hazard, kind_of
from stages.kernels.http import CodingError, TooLargeError, undo

_TITLE_CHARACTERS: Final = 500
Answer = tuple[dict[str, Any], Sequence[bytes]]


def make(max_bytes: int) -> Callable[[dict[str, Any], bytes], Answer]:
    """The worker.

    Args:
        max_bytes: pages with more, after their codings are undone, are refused.
    """

    def work(header: dict[str, Any], body: bytes) -> Answer:
        return extract(body, header.get("type"), header.get("coding"), max_bytes)

    return work


def extract(body: bytes, content_type: str | None, coding: str | None, max_bytes: int) -> Answer:
    """Outcome, and text and title if there are any."""
    try:
        body = undo(body, coding)
    except CodingError as e:
        return {"outcome": "bad_coding", "detail": str(e)}, ()
    except TooLargeError as e:
        return {"outcome": "too_large", "detail": str(e)}, ()
    if not body or body.isspace():
        return {"outcome": "empty"}, ()
    kind = kind_of(body, content_type)
    if kind not in ("html", "text"):
        return {"outcome": kind}, ()
    if len(body) > max_bytes:
        return {"outcome": "too_large"}, ()
    page, charset = decode(body, content_type)
    if kind == "text":
        return _answer(page, "", charset)
    if (danger := hazard(page)) is not None:
        return {"outcome": danger, "charset": charset}, ()
    tree = HTMLTree.parse(page)
    text = extract_plain_text(
        tree,
        main_content=True,
        preserve_formatting=True,
        comments=False,
        post_meta=False,
        alt_texts=False,
        list_bullets=False,
    )
    return _answer(text, " ".join((tree.title or "").split())[:_TITLE_CHARACTERS], charset)


def _answer(text: str, title: str, charset: str) -> Answer:
    header = {"outcome": None if text and not text.isspace() else "empty", "charset": charset}
    return header, (text.encode("utf-8", "replace"), title.encode("utf-8", "replace"))
