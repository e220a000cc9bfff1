"""Token ids of documents by a sentencepiece unigram model: the best path through all pieces, chunk by chunk.

No piece reaches across a boundary between two characters that no piece joins, so every path passes through it and the text
before it matters through one number alone, its score. That number matters: the library adds scores in float32 from the start
of the document, so that far into a long one two close paths may swap. Hence a chunk's ids are remembered together with how
large the score in front may be for rounding not to touch them, and beyond that the library's float32 sums are done again.

The bound: rounding is monotone, so in float32 the library's path is at least as good as the path P that is best in exact
sums. If it were another path Q, then score(Q) + error(Q) >= score(P) - error(P), and the float32 sum of k additions is off by
less than k * u, u = 2**-24 * (|s| + b), s being the score in front and b what the chunk may add. So where score(P) - k(P) u
is above score(Q) + k(Q) u for all other paths Q, the path is P.
Source: Kudo 2018, "Subword regularization"; sentencepiece 0.2.3, src/unigram_model.cc, EncodeOptimized.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.double_array import DoubleArray, below, ends, value_of
from stages.kernels.jit import inlined, inner, kernel
from stages.kernels.spm_bpe import (
    DOCUMENT,
    DONE,
    GROW_OUT,
    GROW_SYMBOLS,
    GROW_TEXT,
    NEEDED,
    WRITTEN,
    chunk_ends,
    one_unknown,
)
from stages.kernels.spm_normalize import SPACE, Rules, normalize
from stages.kernels.token_memo import (
    AGAIN,
    AHEAD,
    HITS,
    LONGEST,
    MISSES,
    Memo,
    look_up,
    note_of,
    recall,
    remember,
    seek,
)
from stages.kernels.token_tables import Int, JoinedPairs

#: The library moves all scores up when the best one gets below this (kScoreResetThreshold).
_RESET: Final = np.float32(100_000.0)
_WORST: Final = -1.0e300
#: 2**-24, half a unit in the last place of float32, with room for the float64 sums that are held against it.
_ROUNDING: Final = 6.0e-8
#: Unit of the note that a remembered chunk carries; 250 of them are the largest score there is.
STEP: Final = 400.0


class UnigramModel(NamedTuple):
    """A vocabulary.

    Attributes:
        rules: the normaliser.
        joined: pairs of characters that some piece holds.
        pieces: all pieces but unused ones, numbered by id, with their scores.
        scores: float32 (ids,), what the path score changes by with each id that is written: user-defined pieces have the
            library's bonus; <unk>, and the first byte of an unknown character, its penalty; the bytes that follow, 0.
        unknown_score: float32, of a character that is no piece.
        largest: the largest |score|, unknown ones included.
        bytes: int32 (256,), ids of the byte pieces; of no use if `unknown` >= 0.
        unknown: id of <unk>, or -1 where bytes stand for unknown characters.
        most: ids that a byte of normalised text can become.
    """

    rules: Rules
    joined: JoinedPairs
    pieces: DoubleArray
    scores: np.ndarray
    unknown_score: float
    largest: float
    bytes: np.ndarray
    unknown: int
    most: int


class Paths(NamedTuple):
    """Room to work in; all but `text` hold at least as many as a document has bytes, and one more.

    Positions in `first` to `nodes` count from the start of a chunk. When they counted from the start of the document, each
    chunk that is not remembered waited for six cache lines of its own, half the time it took.

    Attributes:
        text: uint8, the normalised document.
        first, second: float64, scores of the best and the second-best path to each position.
        single: float32, score of the best path as the library adds it.
        starts, nodes: int32, where the last piece of the best path starts, and its place in the trie, or -1 for an unknown
            character.
        ends: int32, where chunks end.
        ids: int32, ids of one chunk.
    """

    text: np.ndarray
    first: np.ndarray
    second: np.ndarray
    single: np.ndarray
    starts: np.ndarray
    nodes: np.ndarray
    ends: np.ndarray
    ids: np.ndarray


@inlined
def _size(text: np.ndarray, p: Int) -> Int:
    b = text[p]
    return 1 if b < 0x80 else 2 if b < 0xE0 else 3 if b < 0xF0 else 4


@inlined
def _offer(paths: Paths, at: Int, first: Any, second: Any, start: Int, node: Int) -> None:
    """A way to a position whose best two scores are given."""
    if first > paths.first[at]:
        paths.second[at] = max(paths.first[at], second)
        paths.first[at] = first
        paths.starts[at] = start
        paths.nodes[at] = node
    elif first > paths.second[at]:
        paths.second[at] = first


@inner
def best_path(model: UnigramModel, paths: Paths, start: Int, end: Int, each: Any) -> Any:
    """Leave the best path of text[start:end] in `starts` and `nodes`, every piece's score being raised by `each` (float64).

    Returns:
        Its margin over the second best, so raised, float64.
    """
    text = paths.text
    n: Int = end - start
    for i in range(n + 1):
        paths.first[i] = _WORST
        paths.second[i] = _WORST
    paths.first[0] = 0.0
    p: Int = np.int64(0)
    while p < n:
        size = _size(text, start + p)
        first = paths.first[p] + each
        second = paths.second[p] + each
        single = False
        place = np.int64(0)
        q = p
        while q < n:
            place = below(model.pieces, place, text[start + q])
            if place < 0:
                break
            q += 1
            if ends(model.pieces, place):
                score = np.float64(value_of(model.pieces, place))
                _offer(paths, q, first + score, second + score, p, place)
                single = single or q - p == size
        if not single:
            score = np.float64(model.unknown_score)
            _offer(paths, p + size, first + score, second + score, p, np.int32(-1))
        p += size
    return paths.first[n] - paths.second[n]


@inlined
def _pieces(paths: Paths, size: Int) -> Int:
    """Pieces of the path in `starts`, of a chunk of so many bytes."""
    count = 0
    p = np.int64(size)
    while p > 0:
        p = np.int64(paths.starts[p])
        count += 1
    return count


@inner
def certain_below(model: UnigramModel, paths: Paths, start: Int, end: Int) -> Int:
    """Leave a path in `starts` and `nodes` that is the library's for scores in front below STEP * the number returned.

    0 if nothing can be said.
    """
    added = np.float64(end - start) * model.largest
    error = _ROUNDING * (np.float64(_RESET) + added)
    margin = best_path(model, paths, start, end, error)
    top = np.int64((np.float64(_RESET) - added) / STEP)
    if margin > 2.0 * error * _pieces(paths, end - start):
        return top
    # too close for the largest scores: the plain margin, and as many additions as there are bytes
    margin = best_path(model, paths, start, end, 0.0)
    return min(top, np.int64((margin / (2.0 * _ROUNDING * (end - start)) - added) / STEP))


@inner
def library_path(model: UnigramModel, paths: Paths, start: Int, end: Int, score: Any) -> Any:
    """As `best_path`, in float32 from the score (float32) of the text in front, as the library does; the score at the end."""
    text = paths.text
    n: Int = end - start
    for i in range(n + 1):
        paths.starts[i] = -1
        paths.single[i] = np.float32(0.0)
    paths.single[0] = score
    farthest: Int = np.int64(0)
    p: Int = np.int64(0)
    while p < n:
        here: Any = paths.single[p]
        if here < -_RESET or here > _RESET:
            for i in range(p, farthest + 1):
                if i == p or paths.starts[i] != -1:
                    paths.single[i] = paths.single[i] - here
            here = np.float32(0.0)
        size = _size(text, start + p)
        single = False
        place = np.int64(0)
        q = p
        while q < n:
            place = below(model.pieces, place, text[start + q])
            if place < 0:
                break
            q += 1
            if ends(model.pieces, place):
                farthest = max(farthest, q)
                candidate = value_of(model.pieces, place) + here
                if paths.starts[q] == -1 or candidate > paths.single[q]:
                    paths.single[q] = candidate
                    paths.starts[q] = p
                    paths.nodes[q] = place
                single = single or q - p == size
        if not single:
            q = p + size
            farthest = max(farthest, q)
            candidate = np.float32(model.unknown_score) + here
            if paths.starts[q] == -1 or candidate > paths.single[q]:
                paths.single[q] = candidate
                paths.starts[q] = p
                paths.nodes[q] = -1
        p += size
    return paths.single[n]


@inner
def _collect(model: UnigramModel, paths: Paths, start: Int, end: Int, out: np.ndarray, at: Int) -> Int:
    """Write the ids of the path in `starts` and `nodes` to out[at:]; where they end."""
    # backwards, then turned round
    first = at
    p = np.int64(end - start)
    while p > 0:
        before = np.int64(paths.starts[p])
        node = paths.nodes[p]
        if node >= 0:
            out[at] = model.pieces.numbers[node]
            at += 1
        elif model.unknown >= 0:
            out[at] = model.unknown
            at += 1
        elif paths.text[start + before] == SPACE:  # stands for U+2581
            out[at] = model.bytes[0x81]
            out[at + 1] = model.bytes[0x96]
            out[at + 2] = model.bytes[0xE2]
            at += 3
        else:
            for q in range(p - 1, before - 1, -1):
                out[at] = model.bytes[paths.text[start + q]]
                at += 1
        p = before
    last = at - 1
    while first < last:
        kept = out[first]
        out[first] = out[last]
        out[last] = kept
        first += 1
        last -= 1
    return at


@kernel
def encode(
    model: UnigramModel,
    memo: Memo,
    paths: Paths,
    offsets: np.ndarray,
    data: np.ndarray,
    valid: np.ndarray,
    before: Int,
    after: Int,
    out: np.ndarray,
    ends: np.ndarray,
    state: np.ndarray,
) -> Int:
    """As `spm_bpe.encode`, for a unigram model."""
    at = state[WRITTEN]
    for d in range(state[DOCUMENT], valid.shape[0]):
        if valid[d]:
            n = normalize(model.rules, data, offsets[d], offsets[d + 1], paths.text)
            if n < 0:
                return GROW_TEXT
            worst = model.most * n + 3
            if at + worst > out.shape[0]:
                state[NEEDED] = at + worst
                return GROW_OUT
            if n + 1 > paths.starts.shape[0]:
                state[NEEDED] = n + 1
                return GROW_SYMBOLS
            if before >= 0:
                out[at] = before
                at += 1
            at = _document(model, memo, paths, n, out, at)
            if after >= 0:
                out[at] = after
                at += 1
        ends[d + 1] = at
        state[WRITTEN] = at
        state[DOCUMENT] = d + 1
    return DONE


@inner
def _score(model: UnigramModel, out: np.ndarray, start: Int, end: Int, score: Any) -> Any:
    """The score (float32) with those of out[start:end] added one by one."""
    for k in range(start, end):
        score = score + model.scores[out[k]]
    return score


@inner
def _document(model: UnigramModel, memo: Memo, paths: Paths, n: Int, out: np.ndarray, at: Int) -> Int:
    text = paths.text
    hits = 0
    misses = 0
    again = 0
    p = np.int64(0)
    first = at
    score = np.float32(0.0)
    # Adding up in float32 as the library does costs a quarter of the time, and is put off: out[scored:at] is not yet in `score`,
    # which together with it is no larger than `bound`.
    scored = at
    bound = 0.0
    largest = 1.001 * model.largest
    chunk_end = paths.ends
    chunks = chunk_ends(model.joined, model.rules.symbols, False, text, n, chunk_end)
    for c in range(chunks):
        if c % AHEAD == 0:
            seek(memo, text, p, np.int64(0), chunk_end, c, min(c + AHEAD, chunks))
        key = 3 * (c % AHEAD)
        q = np.int64(chunk_end[c])
        start = at
        certain = np.int64(0)
        if q - p <= LONGEST:
            low, high = memo.ahead[key], memo.ahead[key + 1]
            slot = look_up(memo, np.int64(memo.ahead[key + 2]), low, high, text, p, q)
            if slot >= 0:
                hits += 1
                certain = np.int64(note_of(memo, slot))
                at = recall(memo, slot, out, at)
            else:
                misses += 1
                certain = max(np.int64(0), certain_below(model, paths, p, q))
                at = _collect(model, paths, p, q, paths.ids, np.int64(0))
                remember(memo, -1 - slot, low, high, text, p, q, paths.ids, at, certain)
                for k in range(at):
                    out[start + k] = paths.ids[k]
                at += start
        if bound >= STEP * certain:
            # the bound of the score in front says nothing; the score itself may
            score = _score(model, out, scored, start, score)
            if score < -_RESET or score > _RESET:
                score = np.float32(0.0)
            bound = abs(np.float64(score))
            scored = start
            if bound >= STEP * certain:
                again += 1
                score = library_path(model, paths, p, q, score)
                at = _collect(model, paths, p, q, out, start)
                bound = abs(np.float64(score))
                scored = at
        bound += np.float64(at - max(scored, start)) * largest
        if model.unknown >= 0:
            # an <unk> that is dropped here has been added all the same
            score = _score(model, out, scored, at, score)
            bound = abs(np.float64(score))
            at = one_unknown(out, start, at, model.unknown, first)
            scored = at
        p = q
    memo.state[HITS] += hits
    memo.state[MISSES] += misses
    memo.state[AGAIN] += again
    return at
