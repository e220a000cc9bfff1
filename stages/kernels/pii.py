"""Where personal data could be: one pass over bytes that finds the few places worth a closer look.

Reads Arrow buffers of UTF-8; writes candidate ranges, a superset of what `stages.clean.pii` then verifies with patterns. A
document without any is done at the speed of this kernel. Full-width digits count as digits, and invisible characters inside
a number or a word are passed over, so neither hides a value.

Text is seen as *atoms* (runs of ASCII letters, digits and underscores) and what parts them.
"""

from __future__ import annotations

from typing import Any, Final

from stages.kernels.jit import inlined, inner, kernel

# Why a range is a candidate.
AT: Final = 0  # an at sign between characters that may be an address
SPELLED: Final = 1  # "dot" or "at" as a word of its own: name at host dot com
NUMBER: Final = 2  # digits and their separators: telephone, card, identity number, IPv4, coordinates
HEX: Final = 3  # groups of hexadecimal digits and colons: IPv6, MAC
TOKEN: Final = 4  # a long run of letters and digits: keys, crypto addresses, IBAN
PRIVATE_KEY: Final = 5  # -----BEGIN
PLATE: Final = 6  # a province's character and a capital letter

_MIN_DIGITS: Final = 7
_MIN_TOKEN: Final = 15  # an IBAN
_MAX_GAP: Final = 3  # bytes between two digits of one number


@inlined
def _invisible(data: Any, i: Any, end: Any) -> Any:
    """Bytes of the invisible character at i, 0 if there is none: soft hyphen, zero-width characters, word joiner, BOM."""
    b = data[i]
    if b == 0xC2:
        return 2 if i + 1 < end and data[i + 1] == 0xAD else 0
    if b == 0xE2 and i + 2 < end:
        if data[i + 1] == 0x80 and 0x8B <= data[i + 2] <= 0x8F:
            return 3
        return 3 if data[i + 1] == 0x81 and data[i + 2] == 0xA0 else 0
    if b == 0xEF and i + 2 < end:
        return 3 if data[i + 1] == 0xBB and data[i + 2] == 0xBF else 0
    return 0


@inlined
def _wide(data: Any, i: Any, end: Any) -> Any:
    """The ASCII character that a full-width one at i stands for, 0 if it is none."""
    if data[i] != 0xEF or i + 2 >= end:
        return 0
    if data[i + 1] == 0xBC and data[i + 2] >= 0x81:
        return data[i + 2] - 0x60
    if data[i + 1] == 0xBD and data[i + 2] <= 0x9E:
        return data[i + 2] - 0x20
    return 0


@inlined
def _behind(data: Any, i: Any, first: Any) -> Any:
    """Where the visible character before i ends: i, less the invisible ones in between."""
    while True:
        if i - 3 >= first and data[i - 3] >= 0xE2 and _invisible(data, i - 3, i) == 3:
            i -= 3
        elif i - 2 >= first and data[i - 2] == 0xC2 and _invisible(data, i - 2, i) == 2:
            i -= 2
        else:
            return i


@inlined
def _colon(data: Any, i: Any, end: Any) -> Any:
    """Behind the colon at i, full-width or after invisible characters, too; -1 if there is none."""
    while i < end and data[i] >= 0x80:
        if _wide(data, i, end) == 58:
            return i + 3
        size = _invisible(data, i, end)
        if size == 0:
            return -1
        i += size
    return i + 1 if i < end and data[i] == 58 else -1


@inlined
def _digit_before(data: Any, i: Any, first: Any) -> Any:
    """Where the digit before i begins, -1 if there is none."""
    i = _behind(data, i, first)
    if i > first and 48 <= data[i - 1] <= 57:
        return i - 1
    return i - 3 if i - 3 >= first and 48 <= _wide(data, i - 3, i) <= 57 else -1


@inlined
def _put(found: Any, n: Any, d: Any, start: Any, end: Any, kind: Any) -> Any:
    """Note a candidate; how many there are now, whether or not there was room."""
    if n < found.shape[0]:
        found[n, 0] = d
        found[n, 1] = start
        found[n, 2] = end
        found[n, 3] = kind
    return n + 1


@inlined
def _beside(b: Any, kinds: Any) -> Any:
    """Whether an at sign beside this byte may be an address's: a letter, digit, mark of a local part, or anything not ASCII."""
    return b >= 0x80 or (kinds[b] & 15) != 0 or b == 39 or b == 43 or b == 45 or b == 46 or b == 37


@inner
def _prose(data: Any, i: Any, end: Any, kinds: Any) -> Any:
    """End of the run of lower-case words and plain punctuation at i, none of which can be part of anything."""
    while i < end:
        b = data[i]
        if b >= 0x80:
            break
        if kinds[b] & 128:
            i += 1
            continue
        if not kinds[b] & 4:
            break
        j = i + 1
        while j < end and 97 <= data[j] <= 122:
            j += 1
        if j < end and (data[j] >= 0x80 or not kinds[data[j]] & 128 or (j == i + 3 and b == 100)):
            break
        i = j
    return i


@kernel
def find_candidates(data: Any, offsets: Any, valid: Any, kinds: Any, provinces: Any, found: Any) -> Any:
    """Candidates in n documents.

    Args:
        data, offsets, valid: uint8 (bytes,), int64 (n + 1,), bool (n,).
        kinds: uint8 (128,): of ASCII characters: 1 digit, 2 upper case, 4 lower case, 8 underscore, 16 hexadecimal digit,
            32 separator within numbers, 64 joint within tokens, 128 part of none of them.
        provinces: uint8 (0x10000,): 1 for characters that licence plates start with.
        found: int64 (m, 4): document, first byte, end, kind; by document and first byte, roughly.

    Returns:
        How many there are; if more than m, the rest was not written.
    """
    n = 0
    for d in range(offsets.shape[0] - 1):
        i = offsets[d]
        end = offsets[d + 1] if valid[d] else i
        start_of_text = i
        # The number, the colon group and the token that are open.
        number = -1
        number_end = i
        digits = 0
        dots = 0
        group = -1
        group_end = i
        colons = 0
        letters = 0
        token = -1
        token_end = i
        token_digits = 0
        token_letters = 0
        token_capitals = 0
        while i <= end:
            if number < 0 and group < 0 and token < 0:
                i = _prose(data, i, end, kinds)
            # What lies before the next atom; gap counts its visible bytes.
            gap = 0
            joint = 0
            hard = i == end
            while i < end:
                b = data[i]
                if b < 0x80:
                    kind = kinds[b]
                    if kind & 15:
                        break
                    gap += 1
                    joint = b
                    if not kind & 32:
                        hard = True
                    dots += b == 46
                    if (
                        b == 64
                        and start_of_text < i < end - 1
                        and _beside(data[i - 1], kinds)
                        and _beside(data[i + 1], kinds)
                    ):
                        n = _put(found, n, d, i, i + 1, AT)
                    elif b == 45 and i + 10 < end and data[i + 4] == 45 and data[i + 5] == 66 and data[i + 6] == 69:
                        n = _put(found, n, d, i, i + 10, PRIVATE_KEY)
                    i += 1
                    continue
                size = _invisible(data, i, end)
                if size:
                    i += size
                    continue
                wide = _wide(data, i, end)
                if wide:
                    if kinds[wide] & 15:
                        break
                    if wide == 64:
                        n = _put(found, n, d, i, i + 3, AT)
                    if not kinds[wide] & 32:
                        hard = True
                    dots += wide == 46
                    joint = wide
                    gap += 1
                    i += 3
                    continue
                if b == 0xC2 and i + 1 < end and data[i + 1] == 0xA0:  # no-break space
                    joint = 32
                    gap += 1
                    i += 2
                    continue
                if b == 0xE2 and i + 2 < end and data[i + 1] == 0x80 and 0x90 <= data[i + 2] <= 0x95:  # dashes
                    joint = 45
                    gap += 1
                    i += 3
                    continue
                if b == 0xC2 and i + 1 < end and data[i + 1] == 0xB0:
                    digit = _digit_before(data, i, start_of_text)
                    if digit >= 0:
                        n = _put(found, n, d, digit, i + 2, NUMBER)  # degrees
                hard = True
                gap += 1
                joint = 0
                i += 1
                while i < end and (data[i] & 0xC0) == 0x80:
                    i += 1
            if i >= end:
                hard = True
                gap = _MAX_GAP + 1
            # Close what the gap ends.
            if number >= 0 and (hard or gap > _MAX_GAP):
                if digits >= _MIN_DIGITS or (dots >= 3 and digits >= 4):
                    n = _put(found, n, d, number, number_end, NUMBER)
                number = -1
            if group >= 0 and (gap > 2 or joint != 58):
                if colons >= 2 and group_end - group >= 6 and (letters or colons >= 5):
                    n = _put(found, n, d, group, group_end, HEX)
                group = -1
            if token >= 0 and (gap > 1 or not kinds[joint] & 64):
                if (
                    token_end - token >= _MIN_TOKEN
                    and (token_digits >= 2 or (token_digits and token_capitals >= 6))
                    and token_letters >= 2
                ):
                    n = _put(found, n, d, token, token_end, TOKEN)
                token = -1
            if i >= end:
                break
            if (
                gap
                and number < 0
                and group < 0
                and token < 0
                and joint != 40
                and joint != 91
                and joint != 123
                and joint != 60
            ):
                continue  # nothing is open, no bracket before an "at": back to running over prose
            # The atom.
            start = i
            mine = 0
            size = 0
            upper = 0
            hexadecimal = True
            while i < end:
                b = data[i]
                step = 1
                if b >= 0x80:
                    step = _invisible(data, i, end)
                    if step:
                        i += step
                        continue
                    b = _wide(data, i, end)
                    step = 3
                    if b == 0:
                        break
                kind = kinds[b]
                if not kind & 15:
                    break
                mine += kind & 1
                upper += (kind & 2) >> 1
                hexadecimal = hexadecimal and kind & 16 != 0
                size += 1
                i += step
            if mine:
                # 1234, +1234, 123X; a number glued to other letters is none (but see PLATE and TOKEN).
                if mine >= size - 1 or size - mine <= 2:
                    if number < 0:
                        number = start - (start > start_of_text and data[start - 1] in (40, 43))
                        digits = 0
                        dots = 0
                    digits += mine
                    number_end = i
                else:
                    if number >= 0 and (digits >= _MIN_DIGITS or (dots >= 3 and digits >= 4)):
                        n = _put(found, n, d, number, number_end, NUMBER)
                    number = -1
            elif number >= 0:
                if digits >= _MIN_DIGITS or (dots >= 3 and digits >= 4):
                    n = _put(found, n, d, number, number_end, NUMBER)
                number = -1
            if hexadecimal and size <= 4:
                if group < 0:
                    if _colon(data, i, end) >= 0:
                        group = (
                            start - 2
                            if start - 2 >= start_of_text and data[start - 1] == 58 == data[start - 2]
                            else start
                        )
                        colons = 2 if group < start else 0
                        letters = 0
                else:
                    colons += gap
                after = _colon(data, i, end)
                letters += mine < size or (after >= 0 and _colon(data, after, end) >= 0)
                group_end = i
            else:
                group = -1
            if token < 0:
                token = start
                token_digits = 0
                token_letters = 0
                token_capitals = 0
            token_capitals += upper
            token_digits += mine
            token_letters += size - mine
            token_end = i
            if size == 4 and mine == 2 and upper == 2 and i + 5 <= end and data[i] == 32:
                n = _put(found, n, d, start, i, TOKEN)  # an IBAN in groups of four
            if size <= 3 and mine == 0 and _spelled(data, start, i, end, start_of_text):
                n = _put(found, n, d, start, i, SPELLED)
            if upper and start - 3 >= start_of_text and data[start - 1] >= 0x80:
                before = _behind(data, start, start_of_text) - 3
                if before >= start_of_text and (data[before] & 0xF0) == 0xE0:
                    code = (data[before] & 15) << 12 | (data[before + 1] & 63) << 6 | (data[before + 2] & 63)
                    if provinces[code]:
                        n = _put(found, n, d, before, i, PLATE)
    return n


@inlined
def _spelled(data: Any, start: Any, stop: Any, end: Any, first: Any) -> Any:
    """Whether data[start:stop] is "dot" between blanks or brackets, or "at" in brackets."""
    if start == first or stop >= end:
        return False
    before = data[start - 1]
    bracket = before == 40 or before == 91 or before == 123 or before == 60
    if stop - start == 3:
        dot = data[start] | 32 == 100 and data[start + 1] | 32 == 111 and data[start + 2] | 32 == 116
        return dot and (bracket or before == 32 or before == 95 or before == 45)
    if stop - start == 2:
        return bracket and data[start] | 32 == 97 and data[start + 1] | 32 == 116
    return False
