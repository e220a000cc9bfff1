"""What a page and its response say about use for training: `noai`, `noimageai`, a reservation of text and data mining.

Reads the values of <meta name="robots">, X-Robots-Tag and TDM-Reservation (from a page's head, or from the headers that a
Source keeps in `meta`). An order to one named robot (``GPTBot: noai``) counts as one to all: who wrote it did not want the
page trained on. A reservation is the value 1; anything else is none, as the protocol has it for malformed values.
Sources: the two words as DeviantArt introduced them in 2022; TDM-Reservation: https://www.w3.org/2022/tdmrep/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

#: Column -> what it means.
RESERVATIONS: Final[Mapping[str, str]] = {
    "noai": "use for training is refused",
    "noimageai": "use of its images for training is refused",
    "tdm": "text and data mining is reserved",
}
#: Bits of a reservation: who says so.
PAGE: Final = 1
RESPONSE: Final = 2

ROBOTS_HEADER: Final = "x-robots-tag"
RESERVATION_HEADER: Final = "tdm-reservation"
_WORD: Final = re.compile(r"(?<![a-z0-9_-])no(?:image)?ai(?![a-z0-9_-])")


def reservations(robots: str | None, reservation: str | None) -> set[str]:
    """The names in RESERVATIONS that apply.

    Args:
        robots: what is said to robots, directives divided by commas.
        reservation: the value of TDM-Reservation, several divided by commas; one reservation among them is enough.
    """
    found = set(_WORD.findall(robots.lower())) if robots and "ai" in robots.lower() else set()
    if reservation and "1" in (value.strip() for value in reservation.split(",")):
        found.add("tdm")
    return found


def of_headers(meta: str | None) -> set[str]:
    """The names in RESERVATIONS that the headers in a JSON object give; other values than strings say nothing."""
    try:
        headers: Any = json.loads(meta) if meta else {}
    except ValueError:
        return set()
    if not isinstance(headers, dict):
        return set()
    robots, reservation = headers.get(ROBOTS_HEADER), headers.get(RESERVATION_HEADER)
    return reservations(
        robots if isinstance(robots, str) else None,
        str(reservation) if isinstance(reservation, (str, int)) and not isinstance(reservation, bool) else None,
    )
