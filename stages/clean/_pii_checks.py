"""Checksums and registries: is this string of the right shape really a card, an account, an identity number, an address?

Pure functions of short ASCII strings, separators already removed. All are linear in the length of their argument.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable
from typing import Final


def _words(text: str) -> list[str]:
    return text.split()


#: Issuer prefixes (ISO/IEC 7812) and lengths: Visa, Mastercard, Amex, Diners, Discover, JCB, UnionPay, Maestro, Mir.
_CARDS: Final = (
    (("4",), (13, 16, 19)),
    (("51", "52", "53", "54", "55"), (16,)),
    (tuple(str(p) for p in range(2221, 2721)), (16,)),
    (("34", "37"), (15,)),
    (("300", "301", "302", "303", "304", "305", "36", "38", "39"), (14, 16)),
    (("6011", "644", "645", "646", "647", "648", "649", "65"), (16, 19)),
    (tuple(str(p) for p in range(3528, 3590)), (16,)),
    (("62", "81"), (16, 17, 18, 19)),
    (("5018", "5020", "5038", "5893", "6304", "6759", "6761", "6762", "6763", "2200", "2201", "2202", "2203", "2204"),
     (12, 13, 14, 15, 16, 17, 18, 19)),
)  # fmt: skip
_IBAN_LENGTHS: Final = dict(
    pair.split(":")
    for pair in _words(
        "AD:24 AE:23 AL:28 AT:20 AZ:28 BA:20 BE:16 BG:22 BH:22 BI:27 BR:29 BY:28 CH:21 CR:22 CY:28 CZ:24 DE:22 DJ:27 "
        "DK:18 DO:28 EE:20 EG:29 ES:24 FI:18 FK:18 FO:18 FR:27 GB:22 GE:22 GI:23 GL:18 GR:27 GT:28 HN:28 HR:21 HU:28 "
        "IE:22 IL:23 IQ:23 IS:26 IT:27 JO:30 KW:30 KZ:20 LB:28 LC:32 LI:21 LT:20 LU:20 LV:21 LY:25 MC:27 MD:24 ME:22 "
        "MK:19 MN:20 MR:27 MT:31 MU:30 NI:28 NL:18 NO:15 OM:23 PK:24 PL:28 PS:29 PT:25 QA:29 RO:24 RS:22 RU:33 SA:24 "
        "SC:31 SD:18 SE:24 SI:19 SK:24 SM:27 SO:23 ST:25 SV:28 TL:23 TN:24 TR:26 UA:29 VA:22 VG:24 XK:20 YE:30"
    )
)
#: First two digits of Chinese identity numbers: provinces (GB/T 2260).
_PROVINCES: Final = frozenset(
    _words("11 12 13 14 15 21 22 23 31 32 33 34 35 36 37 41 42 43 44 45 46 50 51 52 53 54 61 62 63 64 65 71 81 82 83")
)
#: Country calling codes (ITU-T E.164) and the lengths of national numbers, ranges where there are several.
_CALLING: Final = dict(
    pair.split(":")
    for pair in _words(
        "1:10 7:10 20:8-10 27:9 30:10 31:9 32:8-9 33:9 34:9 36:8-9 39:6-11 40:9 41:9 43:4-13 44:9-10 45:8 46:6-10 47:8 "
        "48:9 49:5-12 51:8-9 52:10 53:8 54:10-11 55:10-11 56:9 57:8-10 58:10 60:8-10 61:9 62:8-12 63:8-10 64:8-10 65:8 "
        "66:8-9 81:9-10 82:8-10 84:9-10 86:9-12 90:10 91:10 92:9-10 93:9 94:9 95:7-10 98:10 211:9 212:9 213:8-9 216:8 "
        "218:8-9 220:7 221:9 222:8 223:8 224:8-9 225:8-10 226:8 227:8 228:8 229:8-10 230:7-8 231:7-9 232:8 233:9 234:8-10 "
        "235:8 236:8 237:8-9 238:7 239:7 240:9 241:7-8 242:9 243:9 244:9 245:7-9 246:7 248:7 249:9 250:8-9 251:9 252:7-9 "
        "253:8 254:9-10 255:9 256:9 257:8 258:8-9 260:9 261:9 262:9 263:9-10 264:8-10 265:7-9 266:8 267:7-8 268:8 269:7 "
        "290:4-5 291:7 297:7 298:6 299:6 350:8 351:9 352:4-11 353:7-9 354:7-9 355:8-9 356:8 357:8 358:5-12 359:7-9 370:8 "
        "371:8 372:7-8 373:8 374:8 375:9 376:6-9 377:8-9 378:6-10 380:9 381:8-9 382:8 383:8-9 385:8-9 386:8 387:8 389:8 "
        "420:9 421:9 423:7-9 500:5 501:7 502:8 503:8 504:8 505:8 506:8 507:7-8 508:6 509:8 590:9 591:8 592:7 593:8-9 "
        "594:9 595:9 596:9 597:6-7 598:8 599:7-8 670:7-8 672:6 673:7 674:7 675:7-8 676:5-7 677:5-7 678:5-7 679:7 680:7 "
        "681:6 682:5 683:4-7 685:5-7 686:5-8 687:6 688:5-6 689:6-8 690:4-7 691:7 692:7 850:8-10 852:8 853:8 855:8-9 "
        "856:8-10 880:8-10 886:8-9 960:7 961:7-8 962:8-9 963:9 964:8-10 965:7-8 966:8-9 967:7-9 968:8 970:8-9 971:8-9 "
        "972:8-9 973:8 974:8 975:7-8 976:8 977:8-10 992:9 993:8 994:9 995:9 996:9 998:9"
    )
)
_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def is_card(digits: str) -> bool:
    """A bank card: a known issuer's prefix and length, and the Luhn check digit; not one digit over and over."""
    if len(set(digits)) < 2 or not any(len(digits) in sizes and digits.startswith(p) for p, sizes in _CARDS):
        return False
    return luhn(digits)


def luhn(digits: str) -> bool:
    """ISO/IEC 7812-1, annex B."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char)
        if place % 2:
            value = value * 2 - 9 * (value > 4)
        total += value
    return total % 10 == 0


def is_iban(account: str) -> bool:
    """ISO 13616: the country's length and the check digits modulo 97."""
    if _IBAN_LENGTHS.get(account[:2]) != str(len(account)):
        return False
    return int("".join(str(int(c, 36)) for c in account[4:] + account[:4])) % 97 == 1


def is_chinese_id(number: str) -> bool:
    """GB 11643: province, date of birth and, of 18 characters, the check character (ISO 7064 MOD 11-2)."""
    if number[:2] not in _PROVINCES:
        return False
    if not _is_date(number[6:10], number[10:12], number[12:14]):
        return False
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    rest = sum(int(c) * w for c, w in zip(number, weights, strict=False)) % 11
    return "10X98765432"[rest] == number[17].upper()


def _is_date(year: str, month: str, day: str) -> bool:
    days = (31, 29 if int(year) % 4 == 0 else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    return "1850" < year < "2100" and 1 <= int(month) <= 12 and 1 <= int(day) <= days[int(month) - 1]


def is_chinese_mobile(digits: str) -> bool:
    """Eleven digits of an allotted range (MIIT numbering plan, 2024); internet-of-things ranges left out."""
    if len(digits) != 11 or digits[0] != "1" or digits[1] not in "3456789":
        return False
    return digits[:3] not in ("154", "142", "143", "160", "161", "163", "164", "168", "169", "179", "194")


def is_international_phone(digits: str) -> bool:
    """Digits after the plus: a country's code, and as many as its national numbers have."""
    for size in (1, 2, 3):
        if allowed := _CALLING.get(digits[:size]):
            rest = len(digits) - size - (digits[size : size + 1] == "0" and digits[:size] != "39")
            low, _, high = allowed.partition("-")
            return int(low) <= rest <= int(high or low)
    return False


def is_public_ip(address: str) -> bool:
    """An address that is routed on the internet."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return parsed.is_global and not parsed.is_multicast
    if parsed in _UNICAST:
        return parsed.is_global
    # Written out in full it is an address whatever its prefix; short forms outside 2000::/3 are mostly code (abc::def).
    return address.count(":") == 7 and "::" not in address and len(address) >= 23 and not _is_special(parsed)


_UNICAST: Final = ipaddress.IPv6Network("2000::/3")


def _is_special(address: ipaddress.IPv6Address) -> bool:
    return any(
        (
            address.is_private and not address.is_reserved,
            address.is_link_local,
            address.is_loopback,
            address.is_multicast,
            address.is_unspecified,
        )
    )


def is_bitcoin(address: str) -> bool:
    """Base58Check (versions 0 and 5) or bech32 / bech32m (BIP 173, 350)."""
    if address[:3].lower() in ("bc1", "tb1"):
        return _bech32(address)
    number = 0
    for char in address:
        value = _BASE58.find(char)
        if value < 0:
            return False
        number = number * 58 + value
    if number.bit_length() > 200:
        return False
    raw = number.to_bytes(25, "big")
    digest = hashlib.sha256(hashlib.sha256(raw[:21]).digest()).digest()
    return raw[0] in (0, 5) and digest[:4] == raw[21:]


def _bech32(address: str) -> bool:
    if address not in (address.lower(), address.upper()):
        return False
    prefix, _, data = address.lower().partition("1")
    values = [_BECH32.find(c) for c in data]
    if -1 in values or len(values) < 14:
        return False
    expanded = [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix]
    return _polymod([*expanded, *values]) in (1, 0x2BC830A3)


def _polymod(values: Iterable[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= generator if top >> bit & 1 else 0
    return check


def is_ethereum(address: str) -> bool:
    """0x and 40 hexadecimal digits in mixed case whose pattern is the checksum of EIP-55."""
    digits = address[2:]
    if digits in (digits.lower(), digits.upper()):
        return False
    digest = _keccak256(digits.lower().encode()).hex()
    return all(c.isdigit() or (c.isupper() == (int(h, 16) > 7)) for c, h in zip(digits, digest, strict=False))


_ROUNDS: Final = tuple(
    int(c, 16)
    for c in _words(
        "1 8082 800000000000808A 8000000080008000 808B 80000001 8000000080008081 8000000000008009 8A 88 80008009 8000000A "
        "8000808B 800000000000008B 8000000000008089 8000000000008003 8000000000008002 8000000000000080 800A "
        "800000008000000A 8000000080008081 8000000000008080 80000001 8000000080008008"
    )
)
_MASK: Final = (1 << 64) - 1


def _keccak256(message: bytes) -> bytes:
    """Keccak-256 as Ethereum uses it (the padding before FIPS 202), for messages shorter than its rate of 136 bytes."""
    block = bytearray(message + b"\x01" + b"\0" * (135 - len(message)))
    block[135] |= 0x80
    lanes = [[0] * 5 for _ in range(5)]
    for i in range(17):
        lanes[i % 5][i // 5] = int.from_bytes(block[8 * i : 8 * i + 8], "little")
    for constant in _ROUNDS:
        parity = [lanes[x][0] ^ lanes[x][1] ^ lanes[x][2] ^ lanes[x][3] ^ lanes[x][4] for x in range(5)]
        for x in range(5):
            mix = parity[(x + 4) % 5] ^ _rotate(parity[(x + 1) % 5], 1)
            lanes[x] = [lane ^ mix for lane in lanes[x]]
        x, y, current = 1, 0, lanes[1][0]
        for t in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            current, lanes[x][y] = lanes[x][y], _rotate(current, (t + 1) * (t + 2) // 2 % 64)
        for y in range(5):
            row = [lanes[x][y] for x in range(5)]
            for x in range(5):
                lanes[x][y] = row[x] ^ (~row[(x + 1) % 5] & _MASK & row[(x + 2) % 5])
        lanes[0][0] ^= constant
    return b"".join(lanes[i % 5][i // 5].to_bytes(8, "little") for i in range(4))


def _rotate(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK if by else value
