"""What happens to one page in the sandbox: codings undone, charset decided, taken apart, its main text chosen.

Runs in the child process only (`corpusflow.Sandbox`). Reads a header {type, coding} and the body as stored; answers
{outcome, charset, about, reserved} and the text and title in UTF-8. A pure function of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from stages.kernels.charset import to_utf8
from stages.kernels.consent import reservations
from stages.kernels.html import hazard, kind_of
from stages.kernels.http import CodingError, TooLargeError, undo
from stages.kernels.page_head import RESERVATION, ROBOTS, about

Engine = Literal["blocks", "resiliparse", "trafilatura"]
Answer = tuple[dict[str, Any], Sequence[bytes]]
#: (text, title), or why the page is refused.
MainText = Callable[[bytes], tuple[bytes, str] | str]

_TITLE_CHARACTERS: Final = 500


def make(max_bytes: int, engine: Engine) -> Callable[[dict[str, Any], bytes], Answer]:
    """The worker.

    Args:
        max_bytes: pages with more, after their codings are undone, are refused.
        engine: what finds the main text.
    """
    main_text = {"blocks": _blocks, "resiliparse": _resiliparse, "trafilatura": _trafilatura}[engine]()

    def work(header: dict[str, Any], body: bytes) -> Answer:
        return extract(body, header.get("type"), header.get("coding"), max_bytes, main_text)

    return work


def extract(body: bytes, content_type: str | None, coding: str | None, max_bytes: int, main_text: MainText) -> Answer:
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
    page, charset = to_utf8(body, content_type)
    found = (page, "") if kind == "text" else main_text(page)
    if isinstance(found, str):
        return {"outcome": found, "charset": charset}, ()
    text, title = found
    if not text.strip():
        return {"outcome": "empty", "charset": charset}, ()
    fields = about(page) if kind == "html" else {}
    header: dict[str, Any] = {"outcome": None, "charset": charset, "about": fields}
    if ROBOTS in fields or RESERVATION in fields:
        header["reserved"] = sorted(reservations(fields.pop(ROBOTS, None), fields.pop(RESERVATION, None)))
    return header, (text, title[:_TITLE_CHARACTERS].encode("utf-8", "replace"))


def _blocks() -> MainText:
    from stages.ingest._main_text import MAX_ATTRIBUTES, MAX_TOO_DEEP, Reader

    reader = Reader()

    def main_text(page: bytes) -> tuple[bytes, str] | str:
        found = reader.read(page)
        if found.most_attributes > MAX_ATTRIBUTES:
            return "too_many_attributes"
        if found.too_deep > MAX_TOO_DEEP:
            return "too_deep"
        return found.text, found.title

    return main_text


def _resiliparse() -> MainText:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    def main_text(page: bytes) -> tuple[bytes, str] | str:
        markup = page.decode("utf-8")
        if (danger := hazard(markup)) is not None:
            return danger
        tree = HTMLTree.parse(markup)
        text = extract_plain_text(
            tree,
            main_content=True,
            preserve_formatting=True,
            comments=False,
            post_meta=False,
            alt_texts=False,
            list_bullets=False,
        )
        return text.encode("utf-8", "replace"), " ".join((tree.title or "").split())

    return main_text


def _trafilatura() -> MainText:
    import trafilatura  # type: ignore[import-not-found,unused-ignore]

    def main_text(page: bytes) -> tuple[bytes, str] | str:
        markup = page.decode("utf-8")
        if (danger := hazard(markup)) is not None:
            return danger
        # deduplicate=True would keep state between pages: the text of one would depend on those before it.
        text = trafilatura.extract(markup, include_comments=False, deduplicate=False) or ""
        title = trafilatura.extract_metadata(markup)
        return text.encode("utf-8", "replace"), (title.title or "") if title else ""

    return main_text
