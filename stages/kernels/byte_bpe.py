"""Token ids of documents by a byte-level BPE vocabulary: cut by the pattern, look up, merge bytes.

Pieces of the pattern never merge with each other, so a piece seen before has the ids it had before. Long pieces (a sentence of
Chinese is one) are cut further, between two characters that no token reaches across.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stages.kernels.bpe import SCAN, merge_long, merge_short
from stages.kernels.jit import inner, kernel
from stages.kernels.pretokens import Pattern, pretoken_end
from stages.kernels.spm_bpe import DOCUMENT, DONE, GROW_OUT, GROW_SYMBOLS, NEEDED, WRITTEN, Scratch
from stages.kernels.token_memo import (
    AHEAD,
    HITS,
    LONGEST,
    MISSES,
    Memo,
    key_words,
    look_up,
    place_of,
    recall,
    remember,
    seek,
)
from stages.kernels.token_tables import Int, JoinedPairs, joined
from stages.kernels.utf8 import code_point


class ByteBpe(NamedTuple):
    """A vocabulary. Symbols are token ids.

    Attributes:
        pattern: where text is cut.
        pairs: hash table of merges, see `bpe.pair_value`.
        bytes: int32 (256,), id of each byte.
        whole: all tokens by their bytes, if a piece that is a token is taken as it is and merging would not always give it.
        by_whole: whether it is so; long pieces are not cut then.
        joined: pairs of whole characters that some token holds side by side. What tokens hold of broken characters is in the
            pattern's classes: LEFT characters may be followed by RIGHT ones.
    """

    pattern: Pattern
    pairs: np.ndarray
    bytes: np.ndarray
    whole: Memo
    by_whole: bool
    joined: JoinedPairs


#: Bits of Pattern.classes, beside those of `pretokens`.
LEFT: Final = 32
RIGHT: Final = 64
#: Pieces up to this many bytes come again often enough as they are, if they are in ASCII.
_SHORT: Final = 12


@kernel
def fill_whole(whole: Memo, data: np.ndarray, offsets: np.ndarray, ids: np.ndarray) -> None:
    """Put tokens (bytes data[offsets[i]:offsets[i + 1]], id ids[i]) into `whole`, which is large enough."""
    for i in range(ids.shape[0]):
        low, high = key_words(data, offsets[i], offsets[i + 1])
        slot = look_up(whole, place_of(whole, low, high), low, high, data, offsets[i], offsets[i + 1])
        if slot < 0:
            remember(whole, -1 - slot, low, high, data, offsets[i], offsets[i + 1], ids[i : i + 1], 1, 0)


@inner
def encode_piece(
    model: ByteBpe, scratch: Scratch, data: np.ndarray, start: Int, end: Int, out: np.ndarray, at: Int
) -> Int:
    """Write the ids of one piece to out[at:], which has room for one more; where they end."""
    if model.by_whole and end - start <= LONGEST:
        low, high = key_words(data, start, end)
        slot = look_up(model.whole, place_of(model.whole, low, high), low, high, data, start, end)
        if slot >= 0:
            return recall(model.whole, slot, out, at)
    n = end - start
    for i in range(n):
        scratch.symbols[i] = model.bytes[data[start + i]]
        scratch.starts[i] = i
    if n <= SCAN:
        n = merge_short(model.pairs, scratch.symbols, scratch.starts, scratch.values, n)
    else:
        n = merge_long(model.pairs, scratch.symbols, scratch.starts, scratch.values, scratch.links, scratch.heap, n)
    for i in range(n):
        out[at + i] = scratch.symbols[i]
    return at + n


@kernel
def all_reached(model: ByteBpe, scratch: Scratch, data: np.ndarray, offsets: np.ndarray, ids: np.ndarray) -> bool:
    """Whether merging the bytes of token i, data[offsets[i]:offsets[i + 1]], gives ids[i] alone, for all of them."""
    for i in range(ids.shape[0]):
        count = encode_piece(model, scratch, data, offsets[i], offsets[i + 1], scratch.ids, np.int64(0))
        if count != 1 or scratch.ids[0] != ids[i]:
            return False
    return True


@inner
def _chunk_end(model: ByteBpe, data: np.ndarray, p: Int, end: Int) -> Int:
    """Where a chunk of a piece ends: before the first character that no token joins to the one in front."""
    classes = model.pattern.classes
    a, size = code_point(data, p)
    p += size
    while p < end:
        b, size = code_point(data, p)
        if not joined(model.joined, a, b) and not (classes[a] & LEFT and classes[b] & RIGHT):
            break
        a = b
        p += size
    return p


@kernel
def encode(
    model: ByteBpe,
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
    """As `spm_bpe.encode`, for a byte-level vocabulary."""
    at = state[WRITTEN]
    for d in range(state[DOCUMENT], valid.shape[0]):
        if valid[d]:
            n = offsets[d + 1] - offsets[d]
            if at + n + 3 > out.shape[0]:
                state[NEEDED] = at + n + 3
                return GROW_OUT
            if n + 1 > scratch.starts.shape[0]:
                state[NEEDED] = n + 1
                return GROW_SYMBOLS
            if before >= 0:
                out[at] = before
                at += 1
            at = _document(model, memo, scratch, data, offsets[d], offsets[d + 1], out, at)
            if after >= 0:
                out[at] = after
                at += 1
        ends[d + 1] = at
        state[WRITTEN] = at
        state[DOCUMENT] = d + 1
    return DONE


@inner
def _chunk_ends(model: ByteBpe, data: np.ndarray, start: Int, end: Int, ends: np.ndarray) -> Int:
    """Write where the chunks of a document end, counted from its start, to `ends` (int32); how many there are."""
    count = np.int64(0)
    p = start
    while p < end:
        piece = pretoken_end(model.pattern, data, p, end)
        while p < piece:
            q = piece
            if not model.by_whole and (q - p > _SHORT or data[q - 1] >= 0x80):
                q = _chunk_end(model, data, p, q)
            ends[count] = q - start
            count += 1
            p = q
    return count


@inner
def _document(
    model: ByteBpe, memo: Memo, scratch: Scratch, data: np.ndarray, start: Int, end: Int, out: np.ndarray, at: Int
) -> Int:
    hits = 0
    misses = 0
    p = start
    ends = scratch.ends
    chunks = _chunk_ends(model, data, start, end, ends)
    for c in range(chunks):
        if c % AHEAD == 0:
            seek(memo, data, p, start, ends, c, min(c + AHEAD, chunks))
        q = start + ends[c]
        if q - p <= LONGEST:
            key = 3 * (c % AHEAD)
            low, high = memo.ahead[key], memo.ahead[key + 1]
            slot = look_up(memo, np.int64(memo.ahead[key + 2]), low, high, data, p, q)
            if slot >= 0:
                hits += 1
                at = recall(memo, slot, out, at)
            else:
                misses += 1
                count = encode_piece(model, scratch, data, p, q, scratch.ids, np.int64(0))
                remember(memo, -1 - slot, low, high, data, p, q, scratch.ids, count, 0)
                for k in range(count):
                    out[at + k] = scratch.ids[k]
                at += count
        else:
            at = encode_piece(model, scratch, data, p, q, out, at)
        p = q
    memo.state[HITS] += hits
    memo.state[MISSES] += misses
    return at
