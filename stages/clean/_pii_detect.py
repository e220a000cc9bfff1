"""The detectors of personal data: what of a candidate's kind is really in its window.

Each yields (kind, start, end) in characters of the window. Patterns come first, then checksums and registries, then the
words that stand beside a number and say what it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Final

from stages.clean import _pii_checks as checks
from stages.clean import _pii_patterns as patterns
from stages.clean._pii_window import Window, said
from stages.kernels import pii as kernel

_LAST_GROUP: Final = re.compile(r"[ \t\u00a0]*[^\d \t\u00a0]*\d+[^\d]*$")
Finding = tuple[str, int, int]


def _matches(pattern: re.Pattern[str], view: Window, reach: int = 2) -> Iterator[re.Match[str]]:
    """Matches that begin inside the candidate (or `reach` characters before it)."""
    for match in pattern.finditer(view.text, max(0, view.low - reach)):
        if match.start() >= view.high:
            return
        yield match


def _digits(text: str) -> str:
    return "".join(c for c in text if c.isdigit())


def _email(view: Window) -> Iterator[Finding]:
    for match in patterns.EMAIL.finditer(view.text, max(0, view.low - 66)):
        if match.start() > view.low:
            return
        if (
            match.end() > view.low
            and _is_host(match[1])
            and match[0].partition("@")[0].lower() not in patterns.NOT_PEOPLE
        ):
            yield "email", match.start(), match.end()


def _is_host(host: str) -> bool:
    last = host.rpartition(".")[2].lower()
    return last in patterns.TOP_LEVEL or (len(last) == 2 and last not in patterns.NOT_TOP_LEVEL)


def _spelled_email(view: Window) -> Iterator[Finding]:
    for match in patterns.SPELLED_EMAIL.finditer(view.text):
        if match.start() > view.high or match.end() < view.low:
            continue
        name, host, _, last = match.groups()
        bracketed = any(c in match[0] for c in "[({<")
        known = host.lower() in patterns.MAIL_HOSTS or bool(re.search(r"[\d._]", name))
        cued = said(patterns.MAIL_CUE, view.text, match.start())
        if _is_host(f"x.{last}") and (bracketed or known or cued) and match[0][-1] != ".":
            yield "email", match.start(), match.end()


def _number(view: Window) -> Iterator[Finding]:
    text = view.text
    near = text[max(0, view.low - 4) : view.high + 8]
    lower = text.lower()
    count = sum(map(near.count, "0123456789"))
    if count >= 17:
        for match in _matches(patterns.CHINESE_ID, view):
            if checks.is_chinese_id(match[0]):
                yield "national_id", match.start(), match.end()
    if count >= 12:
        for match in _matches(patterns.CARD, view):
            digits = _digits(match[0])
            cued = checks.luhn(digits) and said(patterns.CARD_CUE, text, match.start())
            if cued or checks.is_card(digits):
                yield "card", match.start(), match.end()
    if near.count(".") >= 3:
        for match in _matches(patterns.IPV4, view):
            if _is_address(text, match):
                yield "ip", match.start(), match.end()
    if count >= 9:
        if "-" in near:
            for match in _matches(patterns.SSN, view):
                yield "ssn", match.start(), match.end()
        if "ssn" in lower or "social" in lower:
            for match in _cued(patterns.BARE_SSN, patterns.SSN_CUE, view):
                yield "ssn", match.start(), match.end()
    if "pas" in lower or "护照" in lower or "護照" in lower or "旅券" in lower:
        for match in _cued(patterns.PASSPORT, patterns.PASSPORT_CUE, view):
            yield "passport", match.start(), match.end()
    yield from _phones(view, near, count)
    yield from _places(view)


def _cued(pattern: re.Pattern[str], cue: re.Pattern[str], view: Window) -> Iterator[re.Match[str]]:
    """Matches with a cue in front; looked for only if there is a cue in front of the first."""
    for match in _matches(pattern, view, 3):
        if not said(cue, view.text, match.start()):
            return
        yield match


def _is_address(text: str, match: re.Match[str]) -> bool:
    """Public, and not a version or a section: where three numbers are small, a word must say what they are."""
    octets = match[0].split(".")
    if any(len(o) > 1 and o[0] == "0" for o in octets) or not checks.is_public_ip(match[0]):
        return False
    if said(patterns.VERSION_CUE, text, match.start()):
        return False
    small = sum(int(o) < 32 for o in octets) >= 3
    return not small or said(patterns.IP_CUE, text, match.start())


def _phones(view: Window, near: str, count: int) -> Iterator[Finding]:
    text = view.text
    if "+" in near:
        for match in _matches(patterns.INTERNATIONAL, view, 4):
            if number := _international(match[0]):
                yield "phone", match.start(), match.start() + len(number)
    if count >= 10 and ("-" in near or "." in near):
        for match in _matches(patterns.NORTH_AMERICAN, view, 4):
            yield "phone", match.start(), match.end()
    if count >= 10 and patterns.HAN.search(text):
        for match in _matches(patterns.CHINESE_LANDLINE, view, 2):
            if match[0][0] == "(" or "-" in match[0][3:5] or said(patterns.PHONE_CUE, text, match.start()):
                yield "phone", match.start(), match.end()
    if count >= 11:
        for match in _matches(patterns.CHINESE_MOBILE, view, 4):
            digits = _digits(match[0])
            if checks.is_chinese_mobile(digits[-11:]) and (len(digits) == 13 or patterns.HAN.search(text)):
                yield "phone", match.start(), match.end()
    if not patterns.PHONE_HINTS.search(text.encode().lower()):
        return
    for match in _matches(patterns.CUED, view, 2):
        if not 7 <= len(_digits(match[0])) <= 15 or patterns.DATE.match(match[0]) or match[0].count(".") == 1:
            continue
        if patterns.IPV4.fullmatch(match[0]) and all(int(octet) < 256 for octet in match[0].split(".")):
            continue
        if said(patterns.PHONE_CUE, text, match.start()) or patterns.PHONE_AFTER.match(text, match.end()):
            yield "phone", match.start(), match.end()


def _international(number: str) -> str:
    """The head of the number that is as long as the country's numbers are, if another number begins behind it."""
    while len(number) > 7:
        if checks.is_international_phone(_digits(number)):
            return number
        shorter = _LAST_GROUP.sub("", number)
        if number[len(shorter) :].lstrip(" \t\u00a0")[:1].isdigit():
            return ""
        number = shorter
    return ""


def _places(view: Window) -> Iterator[Finding]:
    if view.text.count(".", max(0, view.low - 14), view.high + 40) >= 2:
        for match in _matches(patterns.COORDINATES, view, 10):
            latitude, north, longitude, east = match.groups()
            inside = abs(_float(latitude)) <= 90 and abs(_float(longitude)) <= 180
            if inside and ((north and east) or said(patterns.PLACE_CUE, view.text, match.start())):
                yield "location", match.start(), match.end()
    if "°" in view.text:
        for match in _matches(patterns.SEXAGESIMAL, view, 3):
            yield "location", match.start(), match.end()


def _float(text: str) -> float:
    return float(text.replace("−", "-"))


def _hex(view: Window) -> Iterator[Finding]:
    for match in _matches(patterns.MAC, view, 2):
        if _is_device(match[0]):
            yield "mac", match.start(), match.end()
    for match in _matches(patterns.IPV6, view, 5):
        if checks.is_public_ip(match[0]):
            yield "ip", match.start(), match.end()


def _token(view: Window) -> Iterator[Finding]:
    text = view.text
    token = text[view.low : view.high]
    if token[2:4].isdigit() and token[:2].isalpha():
        for match in _matches(patterns.IBAN, view, 0):
            if account := _account(match[0], said(patterns.IBAN_CUE, text, match.start())):
                yield "iban", match.start(), match.start() + len(account)
    if token[0] in "13bB":
        for match in _matches(patterns.BITCOIN, view, 0):
            if checks.is_bitcoin(match[0]):
                yield "crypto", match.start(), match.end()
    if token[:2] == "0x":
        for match in _matches(patterns.ETHEREUM, view, 0):
            if checks.is_ethereum(match[0]):
                yield "crypto", match.start(), match.end()
    if token.count("-") == 5:
        for match in _matches(patterns.MAC, view, 0):
            if _is_device(match[0]):
                yield "mac", match.start(), match.end()
    for match in _matches(patterns.KNOWN_SECRET, view, 0):
        yield "secret", match.start(), match.end()
    if said(patterns.SECRET_CUE, text, view.low):
        key = patterns.CUED_SECRET.match(text, view.low)
        if key and _is_random(key[0]):
            yield "secret", key.start(), key.end()


def _account(raw: str, said: bool) -> str:
    """The IBAN that `raw` begins with, or nothing: groups may run into the capitals that follow, the checksum says where."""
    if raw != raw.upper() and not said:
        return ""
    while len(raw) >= 15:
        if checks.is_iban(re.sub("[ -]", "", raw.upper())):
            return raw
        raw = raw.rpartition(" ")[0]
    return ""


def _is_device(address: str) -> bool:
    """A MAC address of a device, not of a multicast group, nor one made up of a few digits."""
    return len(set(address.lower())) > 4 and not int(address[1], 16) & 1


def _is_random(text: str) -> bool:
    """Whether letters and digits are mixed as keys are: at least 3 bits of entropy a character, and both kinds."""
    if not (any(c.isdigit() for c in text) and any(c.isalpha() for c in text)):
        return False
    counts = [text.count(c) for c in set(text)]
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts) >= 3.0


def _plate(view: Window) -> Iterator[Finding]:
    for match in _matches(patterns.PLATE, view, 1):
        if sum(c.isdigit() for c in match[0]) >= 2:
            yield "plate", match.start(), match.end()


DETECTORS: Final[dict[int, Callable[[Window], Iterator[Finding]]]] = {
    kernel.AT: _email,
    kernel.SPELLED: _spelled_email,
    kernel.NUMBER: _number,
    kernel.HEX: _hex,
    kernel.TOKEN: _token,
    kernel.PLATE: _plate,
}
