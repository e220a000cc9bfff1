"""C4's line cleaning (Raffel et al. 2020, section 2.2; tensorflow/datasets c4_utils.py), on Arrow buffers.

A line is stripped, citations are cut out of it, and it is removed for the first of these: a word too long, no terminal mark,
an ellipsis, too few words, placeholder text, javascript, a curly bracket, a policy phrase. Placeholder text and curly
brackets condemn the page: they are counted, in lines that got that far, and a rule decides.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.buffers import TextBuffers
from stages.kernels.jit import inlined, inner, kernel
from stages.kernels.lines import strip
from stages.kernels.phrases import JAVASCRIPT, LOREM_IPSUM, POLICY, find_phrases
from stages.kernels.sentences import count_sentences
from stages.kernels.unicode_classes import (
    CLOSING,
    DIGIT,
    PUNCTUATION,
    SPACE,
    TERMINAL,
    Unicode,
    decode,
    previous,
    unicode_tables,
)

#: What happens to a line; the number is its place in the counts.
KEPT, LONG_WORD, UNFINISHED, SHORT, LOREM, SCRIPT, CURLY, POLICIES, SENTENCES = 0, 1, 2, 3, 4, 5, 6, 7, 8
COUNTED: Final = (
    "c4_kept_lines", "c4_long_word_lines", "c4_unfinished_lines", "c4_short_lines", "c4_lorem_ipsum_lines",
    "c4_javascript_lines", "c4_curly_bracket_lines", "c4_policy_lines", "c4_sentences",
)  # fmt: skip

#: Which marks end a line: terminal punctuation of any script or a closing quotation mark; `. ? ! "`; those and `'`.
ANY_SCRIPT, CODE, DATATROVE = 0, 1, 2


class LineRules(NamedTuple):
    """Parameters, as kernels take them.

    Attributes:
        count_citations: citations are words of a line, though they are cut out of it: so in datatrove, not in C4's code.
        end_marks: -1 where lines need no terminal mark.
    """

    min_words: int
    count_citations: bool
    max_word_chars: int
    end_marks: int
    citations: bool
    javascript: bool
    policy: bool


_NEWLINE, _RETURN, _STOP, _CURLY = ord("\n"), ord("\r"), ord("."), ord("{")
_OPEN, _SHUT = ord("["), ord("]")
_EDIT: Final = np.frombuffer(b"edit]", np.uint8)
_NEEDED: Final = np.frombuffer(b"citation needed]", np.uint8)


def _breaks() -> np.ndarray:
    table = np.zeros(256, np.bool_)
    for cp in (*range(0x0A, 0x0E), *range(0x1C, 0x1F), 0x85, 0x2028, 0x2029):
        table[chr(cp).encode()[0]] = True
    table.flags.writeable = False
    return table


#: bool (256,): bytes that the characters at which str.splitlines() cuts begin with.
MAY_BREAK: Final = _breaks()


@inlined
def _is_break(cp: Any) -> Any:
    """Characters at which str.splitlines() cuts."""
    return 0x0A <= cp <= 0x0D or 0x1C <= cp <= 0x1E or cp == 0x85 or cp == 0x2028 or cp == 0x2029


@inlined
def _starts_with(text: Any, i: Any, end: Any, pattern: Any) -> Any:
    if i + pattern.shape[0] > end:
        return False
    k = 0
    while k < pattern.shape[0] and text[i + k] == pattern[k]:
        k += 1
    return k == pattern.shape[0]


@inner
def _citation_end(text: Any, i: Any, end: Any, unicode: Any) -> Any:
    """Where the citation that begins with the bracket at `i` ends; `i` itself if there is none: [12] [] [edit] …"""
    k = i + 1
    if _starts_with(text, k, end, _EDIT):
        return k + _EDIT.shape[0]
    if _starts_with(text, k, end, _NEEDED):
        return k + _NEEDED.shape[0]
    while k < end:
        if text[k] == _SHUT:
            return k + 1
        cp, k = decode(text, k, end)
        if not unicode.flags[unicode.classes[cp]] & DIGIT:
            break
    return i


@inner
def _find_break(text: Any, i: Any) -> Any:
    """(where the line that begins at `i` ends, where the next one begins)."""
    end = text.shape[0]
    while i < end:
        if MAY_BREAK[text[i]]:
            cp, after = decode(text, i, end)
            if _is_break(cp):
                both = cp == _RETURN and after < end and text[after] == _NEWLINE
                return i, after + both
            i = after
        else:
            i += 1
    return end, end


@inner
def _count_words(line: Any, most: Any, unicode: Any) -> Any:
    """Words between white space, no further than `most`."""
    words = i = 0
    inside = False
    while i < line.shape[0] and words < most:
        cp, i = decode(line, i, line.shape[0])
        space = (unicode.flags[unicode.classes[cp]] & SPACE) != 0
        words += not space and not inside
        inside = not space
    return words


@inner
def _has_long_word(line: Any, most: Any, unicode: Any) -> Any:
    """Whether a word has more than `most` characters; most lines are too short for one."""
    if line.shape[0] <= most:
        return False
    chars = i = 0
    while i < line.shape[0]:
        cp, i = decode(line, i, line.shape[0])
        chars = 0 if unicode.flags[unicode.classes[cp]] & SPACE else chars + 1
        if chars > most:
            return True
    return False


@inner
def _copy(line: Any, unicode: Any, citations: Any, out: Any, at: Any) -> Any:
    """Write a line, without its citations, to `out` from `at`; returns where it ends."""
    n = line.shape[0]
    bracket = False
    for i in range(n):
        bracket |= line[i] == _OPEN
    if not (bracket and citations):
        target = out[at : at + n]
        for i in range(n):
            target[i] = line[i]
        return at + n
    i = 0
    while i < n:
        after = _citation_end(line, i, n, unicode) if line[i] == _OPEN else i
        if after > i:
            i = after
            continue
        out[at] = line[i]
        at += 1
        i += 1
    return at


@inner
def _is_finished(line: Any, unicode: Any, end_marks: Any) -> Any:
    """Whether the line ends in a terminal mark and not in `...`."""
    end = line.shape[0]
    if end_marks == ANY_SCRIPT:  # a citation may leave a space behind
        _, end = strip(line, unicode)
    if end == 0:
        return False
    last, _ = decode(line, previous(line, 0, end), end)
    if last == _STOP and end >= 3 and line[end - 2] == _STOP and line[end - 3] == _STOP:
        return False
    if end_marks == CODE or end_marks == DATATROVE:  # noqa: SIM109
        plain = last == 0x2E or last == 0x3F or last == 0x21 or last == 0x22  # . ? ! "
        return plain or (end_marks == DATATROVE and last == 0x27)
    flags = unicode.flags[unicode.classes[last]]
    quotation = flags & CLOSING and flags & PUNCTUATION and not (last == 0x29 or last == 0x5D or last == 0x7D)
    return (flags & TERMINAL) != 0 or quotation != 0


@inner
def _judge(line: Any, cleaned: Any, unicode: Any, rules: Any) -> Any:
    """What happens to a line, given it stripped and then without its citations."""
    if _has_long_word(line, rules.max_word_chars, unicode):
        return LONG_WORD
    if rules.end_marks >= 0 and not _is_finished(cleaned, unicode, rules.end_marks):
        return UNFINISHED
    if not rules.count_citations:
        line = cleaned
    if _count_words(line, rules.min_words, unicode) < rules.min_words:
        return SHORT
    line = cleaned
    phrases = find_phrases(line)
    curly = False
    for i in range(line.shape[0]):
        curly |= line[i] == _CURLY
    if phrases & LOREM_IPSUM:
        return LOREM
    if rules.javascript and phrases & JAVASCRIPT:
        return SCRIPT
    if curly:
        return CURLY
    if rules.policy and phrases & POLICY:
        return POLICIES
    return KEPT


@inner
def clean_document(text: Any, unicode: Any, rules: Any, out: Any, written: Any, at: Any, counts: Any) -> Any:
    """Clean a document (uint8, UTF-8) into `out` from `at`, never more bytes than come in; returns where the result ends.

    Lines with placeholder text or a curly bracket stay, so that a run without those rules keeps them.

    Args:
        rules: LineRules.
        written: `out`, read-only: what is measured has the type that text has, so that nothing is compiled twice.
        counts: int64, written, ordered as COUNTED.
    """
    counts[:] = 0
    begin = at
    i = 0
    while i < text.shape[0]:
        start = i
        stop, i = _find_break(text, start)
        first, last = strip(text[start:stop], unicode)
        line = text[start + first : start + last]
        room = at + 1 if at > begin else at
        finish = _copy(line, unicode, rules.citations, out, room)
        verdict = _judge(line, written[room:finish], unicode, rules)
        counts[verdict] += 1
        if verdict == KEPT or verdict == LOREM or verdict == CURLY:  # noqa: SIM109
            ended, cut = count_sentences(written[room:finish], unicode)
            counts[SENTENCES] += ended + cut
            if room > at:
                out[at] = _NEWLINE
            at = finish
    # A citation leaves the space beside it behind; at the ends of the page it goes.
    first, last = strip(written[begin:at], unicode)
    if first:
        for k in range(first, last):
            out[begin + k - first] = out[begin + k]
    return begin + last - first


@kernel
def _clean(
    offsets: Any,
    data: Any,
    apply: Any,
    unicode: Any,
    rules: Any,
    out: Any,
    written: Any,
    out_offsets: Any,
    counts: Any,
    totals: Any,
) -> None:
    at = np.int64(0)
    for d in range(apply.shape[0]):
        out_offsets[d] = at
        start, end = offsets[d], offsets[d + 1]
        if apply[d]:
            at = clean_document(data[start:end], unicode, rules, out, written, at, counts)
            for k in range(counts.shape[0]):
                totals[k, d] = counts[k]
        else:
            for i in range(start, end):
                out[at + i - start] = data[i]
            at += end - start
    out_offsets[apply.shape[0]] = at


def clean_lines(text: TextBuffers, apply: np.ndarray, rules: LineRules) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clean a batch of n documents.

    Args:
        text: from `text_buffers`.
        apply: bool (n,): False where the document stays as it is.
        rules: parameters.

    Returns:
        int64 (n + 1,) offsets and uint8 data of the cleaned texts, and int32 (len(COUNTED), n) counts, 0 where not applied.
    """
    n = len(text.valid)
    out = np.empty(int(text.offsets[-1] - text.offsets[0]) + 1, np.uint8)
    out_offsets = np.zeros(n + 1, np.int64)
    totals = np.zeros((len(COUNTED), n), np.int32)
    counts = np.zeros(len(COUNTED), np.int64)
    unicode: Unicode = unicode_tables()
    written = out.view()
    written.flags.writeable = False
    _clean(text.offsets, text.data, apply & text.valid, unicode, rules, out, written, out_offsets, counts, totals)
    return out_offsets, out, totals
