"""Token ids of documents by a sentencepiece BPE model: normalise, cut where no piece can reach across, look up, merge.

If no piece of the vocabulary holds the characters a and b side by side, no merge ever crosses a boundary between them, so
that the ids of a text are the ids of its chunks one after the other (merges on either side do not see each other). Two things
are not local and are looked after here: consecutive unknown characters become one <unk>, and the space put in front of a
document.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stages.kernels.bpe import SCAN, merge_long, merge_short
from stages.kernels.jit import inlined, inner, kernel
from stages.kernels.spm_normalize import SPACE, Rules, normalize
from stages.kernels.token_memo import AHEAD, HITS, LONGEST, MISSES, Memo, look_up, recall, remember, seek
from stages.kernels.token_tables import Int, JoinedPairs, Trie, joined, longest_number
from stages.kernels.utf8 import code_point

DONE: Final = 0
#: `encode` stopped before a document because an array is too small; state[1] says how large it must be (text: unknown).
GROW_OUT: Final = 1
GROW_TEXT: Final = 2
GROW_SYMBOLS: Final = 3

#: Positions in `state`: the next document, ids written, size needed.
DOCUMENT, WRITTEN, NEEDED = range(3)


class BpeModel(NamedTuple):
    """A vocabulary.

    Attributes:
        rules: the normaliser.
        joined: pairs of characters that some piece holds.
        symbols: user-defined symbols in normalised form, numbered by id.
        has_symbols: whether there are any.
        characters: int32 (0x110000,), symbol of each code point, or -1.
        pairs: hash table of merges, see `bpe.pair_value`.
        ids: int32 (symbols,), id of each symbol, or -1 for a character that is not a piece.
        bytes: int32 (256,), ids of the byte pieces; of no use if `unknown` >= 0.
        unknown: id of <unk>, or -1 where bytes stand for unknown characters.
        most: ids that a byte of normalised text can become: 1, or 3 where the space is no piece but three bytes.
    """

    rules: Rules
    joined: JoinedPairs
    symbols: Trie
    has_symbols: bool
    characters: np.ndarray
    pairs: np.ndarray
    ids: np.ndarray
    bytes: np.ndarray
    unknown: int
    most: int


class Scratch(NamedTuple):
    """Room to work in; all but `text` (uint8) and `ids` hold at least as many as a document has bytes, `heap` twice that.

    Attributes:
        text: uint8, the normalised document.
        symbols, starts, links, ends: int32.
        values, heap: int64.
        ids: int32, ids of one chunk.
    """

    text: np.ndarray
    symbols: np.ndarray
    starts: np.ndarray
    values: np.ndarray
    links: np.ndarray
    heap: np.ndarray
    ends: np.ndarray
    ids: np.ndarray


@inner
def chunk_ends(pairs: JoinedPairs, symbols: Trie, has_symbols: bool, text: np.ndarray, n: Int, ends: np.ndarray) -> Int:
    """Where the chunks of text[:n] end: before a character that no piece joins to the one in front, or around a symbol.

    Each place is written and the next one is written over it if it was none, since a branch for each chunk is mispredicted:
    their lengths are those of words.

    Args:
        ends: int32, at least n + 1.

    Returns:
        How many there are.
    """
    count = np.int64(0)
    a = np.int64(-1)  # nothing in front
    p = np.int64(0)
    while p < n:
        if has_symbols and symbols.starts[text[p]]:
            found = longest_number(symbols, text, p, n)
            if found:
                if a >= 0:
                    ends[count] = p
                    count += 1
                p += found >> 32
                ends[count] = p
                count += 1
                a = np.int64(-1)
                continue
        b = np.int64(text[p])
        size = np.int64(1)
        if b >= 128:
            b, size = code_point(text, p)
        ends[count] = p
        if (a | b) < 128:
            count += np.int64(a >= 0) & np.int64(not pairs.ascii[(a << 7 | b) & 0x3FFF])
        else:
            count += np.int64(a >= 0 and not joined(pairs, a, b))
        a = b
        p += size
    if a >= 0:
        ends[count] = n
        count += 1
    return count


@inner
def encode_chunk(model: BpeModel, scratch: Scratch, start: Int, end: Int, out: np.ndarray, at: Int) -> Int:
    """Write the ids of scratch.text[start:end] to out[at:]; where they end. Each unknown character is an <unk> of its own."""
    n = 0
    p = start
    while p < end:
        c, size = code_point(scratch.text, p)
        scratch.symbols[n] = model.characters[c]
        scratch.starts[n] = p
        n += 1
        p += size
    if n <= SCAN:
        n = merge_short(model.pairs, scratch.symbols, scratch.starts, scratch.values, n)
    else:
        n = merge_long(model.pairs, scratch.symbols, scratch.starts, scratch.values, scratch.links, scratch.heap, n)
    for i in range(n):
        symbol = scratch.symbols[i]
        if symbol >= 0 and model.ids[symbol] >= 0:
            out[at] = model.ids[symbol]
            at += 1
        elif model.unknown >= 0:
            out[at] = model.unknown
            at += 1
        elif scratch.text[scratch.starts[i]] == SPACE:  # stands for U+2581
            out[at] = model.bytes[0xE2]
            out[at + 1] = model.bytes[0x96]
            out[at + 2] = model.bytes[0x81]
            at += 3
        else:
            stop = scratch.starts[i + 1] if i + 1 < n else end
            for q in range(scratch.starts[i], stop):
                out[at] = model.bytes[scratch.text[q]]
                at += 1
    return at


@kernel
def encode(
    model: BpeModel,
    memo: Memo,
    scratch: Scratch,
    offsets: np.ndarray,
    data: np.ndarray,
    valid: np.ndarray,
    before: Int,
    after: Int,
    out: np.ndarray,
    ends: np.ndarray,
    state: np.ndarray,
) -> Int:
    """Encode documents from number state[DOCUMENT] on.

    Args:
        offsets, data, valid: the documents, as TextBuffers.
        before, after: ids put around each valid document, or -1.
        out: int32, ids of all documents so far and to come.
        ends: int64 (documents + 1,), where each ends in `out`; ends[0] = 0.
        state: int64 (3,): the next document, ids written, and where it stopped, the size that is needed.

    Returns:
        DONE, or which array is too small for the next document.
    """
    at = state[WRITTEN]
    for d in range(state[DOCUMENT], valid.shape[0]):
        if valid[d]:
            n = normalize(model.rules, data, offsets[d], offsets[d + 1], scratch.text)
            if n < 0:
                return GROW_TEXT
            worst = model.most * n + 3
            if at + worst > out.shape[0]:
                state[NEEDED] = at + worst
                return GROW_OUT
            if n + 1 > scratch.symbols.shape[0]:
                state[NEEDED] = n + 1
                return GROW_SYMBOLS
            if before >= 0:
                out[at] = before
                at += 1
            at = _document(model, memo, scratch, n, out, at)
            if after >= 0:
                out[at] = after
                at += 1
        ends[d + 1] = at
        state[WRITTEN] = at
        state[DOCUMENT] = d + 1
    return DONE


@inner
def _document(model: BpeModel, memo: Memo, scratch: Scratch, n: Int, out: np.ndarray, at: Int) -> Int:
    text = scratch.text
    hits = 0
    misses = 0
    p = np.int64(0)
    first = at
    ends = scratch.ends
    chunks = chunk_ends(model.joined, model.symbols, model.has_symbols, text, n, ends)
    for c in range(chunks):
        if c % AHEAD == 0:
            seek(memo, text, p, np.int64(0), ends, c, min(c + AHEAD, chunks))
        key = 3 * (c % AHEAD)
        q = np.int64(ends[c])
        if model.has_symbols and model.symbols.starts[text[p]]:
            found = longest_number(model.symbols, text, p, n)
            if found:
                out[at] = np.int32(found & 0xFFFF_FFFF)
                at += 1
                p = q
                continue
        start = at
        if q - p <= LONGEST:
            low, high = memo.ahead[key], memo.ahead[key + 1]
            slot = look_up(memo, np.int64(memo.ahead[key + 2]), low, high, text, p, q)
            if slot >= 0:
                hits += 1
                at = recall(memo, slot, out, at)
            else:
                misses += 1
                count = encode_chunk(model, scratch, p, q, scratch.ids, np.int64(0))
                remember(memo, -1 - slot, low, high, text, p, q, scratch.ids, count, 0)
                for k in range(count):
                    out[at + k] = scratch.ids[k]
                at += count
        else:
            at = encode_chunk(model, scratch, p, q, out, at)
        if model.unknown >= 0:
            at = one_unknown(out, start, at, model.unknown, first)
        p = q
    memo.state[HITS] += hits
    memo.state[MISSES] += misses
    return at


@inlined
def one_unknown(out: np.ndarray, start: Int, end: Int, unknown: Int, first: Int) -> Int:
    """Drop each <unk> in out[start:end] that follows an <unk> of the same document, which began at `first`."""
    kept = start
    for k in range(start, end):
        if out[k] == unknown and kept > first and out[kept - 1] == unknown:
            continue
        out[kept] = out[k]
        kept += 1
    return kept
