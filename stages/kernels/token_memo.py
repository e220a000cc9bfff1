"""A bounded table from the bytes of a chunk to its token ids, so that a chunk seen before is not encoded again.

The table only ever shortens the way to the same ids: keys are compared byte for byte, and when it is full it is emptied. It
belongs to one thread at a time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stages.kernels.jit import inlined, inner
from stages.kernels.loads import load64, prefetch
from stages.kernels.token_tables import Int

#: Longer chunks hardly ever come again and are encoded every time.
LONGEST: Final = 96
#: Chunks of more ids are not kept either (a count of 8 bits; it takes bytes in place of unknown characters to get there).
MOST_IDS: Final = 96

#: Chunks that `seek` takes at once.
AHEAD: Final = 32

USED, POOLED, KEYED, HITS, MISSES, RESETS, AGAIN = range(7)

_WORDS: Final = 4
_S8: Final = np.uint64(8)
_S16: Final = np.uint64(16)
_S32: Final = np.uint64(32)
_S56: Final = np.uint64(56)
_PLACE: Final = np.uint64((1 << 40) - 1)
_BYTE: Final = np.uint64(0xFF)
_LOW32: Final = np.uint64(0xFFFF_FFFF)
_PRIME: Final = np.uint64(0x100_0000_01B3)
_MIX_A: Final = np.uint64(0xD6E8_FEB8_6659_FD93)
_MIX_B: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_ZERO: Final = np.uint64(0)
#: What a key of 0 to 16 bytes takes of its first eight bytes, then of the next eight.
_MASKS: Final = np.array(
    [(1 << 8 * min(k, 8)) - 1 for k in range(17)] + [(1 << 8 * max(k - 8, 0)) - 1 for k in range(17)], np.uint64
)


class Memo(NamedTuple):
    """The table.

    Attributes:
        slots: uint64 (4 * 2**k,), four words a slot: two of the key, then length | ids << 8 | place in the pool << 16 |
            note << 56, then the first two ids. A key of up to 16 bytes is in the slot; a longer one is its hash and its
            place in `keys`.
        pool: int32, ids of chunks that have more than two.
        keys: uint8, bytes of the longer chunks.
        state: int64 (7,): slots used, pool used, keys used, hits, misses, times it was emptied, and how many chunks of a
            unigram model had to be encoded again because of the score in front.
        ahead: uint64 (3 * AHEAD,), see `seek`.
        shift: 64 - k.
    """

    slots: np.ndarray
    pool: np.ndarray
    keys: np.ndarray
    state: np.ndarray
    ahead: np.ndarray
    shift: int


def new_memo(bits: int = 20) -> Memo:
    """An empty table of 2**bits slots: 2**20 take 32 MB, and 10 MB of pool and keys with them.

    35 MB of English (novels and web pages) hold 180,000 different chunks, 14 MB of classical Chinese up to 680,000; three
    quarters of 2**20 slots is 786,000.
    """
    size = 1 << bits
    room = np.empty(_WORDS * size + 8, np.uint64)
    first = -room.ctypes.data % 64 // 8  # two slots a cache line, none on the border of two
    slots = room[first : first + _WORDS * size]
    # Written now: memory that the system has yet to give costs up to 0.2 s, and not evenly, when chunks first come to it.
    slots.fill(0)
    return Memo(
        slots,
        np.zeros(2 * size, np.int32),
        np.zeros(2 * size, np.uint8),
        np.zeros(7, np.int64),
        np.zeros(3 * AHEAD, np.uint64),
        64 - bits,
    )


@inlined
def key_words(data: np.ndarray, start: Int, end: Int) -> tuple[Int, Int]:
    """The two words of a key: its bytes, if 16 at most, else a hash and 0."""
    low = _ZERO
    high = _ZERO
    size = end - start
    if size <= 16 and start + 16 <= data.shape[0]:
        return load64(data, start) & _MASKS[size], load64(data, start + 8) & _MASKS[size + 17]
    if size <= 8:
        for k in range(size):
            low |= np.uint64(data[start + k]) << np.uint64(8 * k)
    elif size <= 16:
        for k in range(8):
            low |= np.uint64(data[start + k]) << np.uint64(8 * k)
        for k in range(8, size):
            high |= np.uint64(data[start + k]) << np.uint64(8 * k - 64)
    else:
        for k in range(size):
            low = (low ^ np.uint64(data[start + k])) * _PRIME
    return low, high


@inlined
def place_of(memo: Memo, low: Int, high: Int) -> Int:
    """The slot where the search for a key begins."""
    # the highest bits of a product are those that every bit of a factor reaches
    spread = high * _MIX_A
    return np.int64(((low ^ spread ^ (spread >> _S32)) * _MIX_B) >> np.uint64(memo.shift))


@inner
def seek(memo: Memo, data: np.ndarray, p: Int, origin: Int, ends: np.ndarray, first: Int, last: Int) -> None:
    """Leave the keys of chunks `first` to `last` (AHEAD at most) in memo.ahead, and have their slots fetched.

    The first one starts at p, and chunk c ends at origin + ends[c].

    The table is larger than the caches near the core, and a look-up that waits for its slot holds up the next one: with all
    of them under way at once, they take half the time.
    """
    k = np.int64(0)
    for c in range(first, last):
        q = origin + np.int64(ends[c])
        low, high = key_words(data, p, q)
        at = place_of(memo, low, high)
        prefetch(memo.slots, _WORDS * at)
        memo.ahead[k] = low
        memo.ahead[k + 1] = high
        memo.ahead[k + 2] = np.uint64(at)
        k += 3
        p = q


@inlined
def look_up(memo: Memo, at: Int, low: Int, high: Int, data: np.ndarray, start: Int, end: Int) -> Int:
    """The slot of a chunk whose search begins at `at`, or -1 - the free slot where it belongs."""
    size = end - start
    mask = np.int64(memo.slots.shape[0] // _WORDS - 1)
    while True:
        base = _WORDS * at
        meta = memo.slots[base + 2]
        if meta == _ZERO:
            return -1 - at
        if memo.slots[base] == low and np.int64(meta & _BYTE) == size:
            if size <= 16:
                if memo.slots[base + 1] == high:
                    return at
            elif _same(memo.keys, np.int64(memo.slots[base + 1]), data, start, size):
                return at
        at = (at + 1) & mask


@inlined
def _same(keys: np.ndarray, place: Int, data: np.ndarray, start: Int, size: Int) -> bool:
    for k in range(size):  # noqa: SIM110 - numba has no generators here
        if keys[place + k] != data[start + k]:
            return False
    return True


@inlined
def remember(
    memo: Memo,
    free: Int,
    low: Int,
    high: Int,
    data: np.ndarray,
    start: Int,
    end: Int,
    ids: np.ndarray,
    count: Int,
    note: Int,
) -> Int:
    """Put a chunk, ids[:count] and a note (below 256) into a free slot, as `look_up` gave it; the slot, or -1: not kept."""
    size = end - start
    if size > LONGEST or count > MOST_IDS or count == 0:
        return -1
    state = memo.state
    full = 4 * (state[USED] + 1) > 3 * (memo.slots.shape[0] // _WORDS)
    if full or state[POOLED] + count > memo.pool.shape[0] or state[KEYED] + size > memo.keys.shape[0]:
        memo.slots[:] = _ZERO
        state[USED] = 0
        state[POOLED] = 0
        state[KEYED] = 0
        state[RESETS] += 1
        free = place_of(memo, low, high)
    base = _WORDS * free
    memo.slots[base] = low
    if size <= 16:
        memo.slots[base + 1] = high
    else:
        place = state[KEYED]
        for k in range(size):
            memo.keys[place + k] = data[start + k]
        state[KEYED] += size
        memo.slots[base + 1] = np.uint64(place)
    place = state[POOLED]
    if count > 2:
        for k in range(count):
            memo.pool[place + k] = ids[k]
        state[POOLED] += count
    memo.slots[base + 2] = (
        np.uint64(size) | np.uint64(count) << _S8 | np.uint64(place) << _S16 | np.uint64(note) << _S56
    )
    second = np.uint64(ids[1]) if count > 1 else _ZERO
    memo.slots[base + 3] = np.uint64(ids[0]) | second << _S32
    state[USED] += 1
    return free


@inlined
def recall(memo: Memo, slot: Int, out: np.ndarray, at: Int) -> Int:
    """Write the ids of a slot to out[at:], which has room for one more; where they end."""
    base = _WORDS * slot
    meta = memo.slots[base + 2]
    count = np.int64((meta >> _S8) & _BYTE)
    if count <= 2:
        # both are written, whether there are two or not: a branch here is mispredicted every other time
        pair = memo.slots[base + 3]
        out[at] = np.int32(pair & _LOW32)
        out[at + 1] = np.int32(pair >> _S32)
        return at + count
    place = np.int64((meta >> _S16) & _PLACE)
    for k in range(count):
        out[at + k] = memo.pool[place + k]
    return at + count


@inlined
def note_of(memo: Memo, slot: Int) -> Int:
    """The note of a slot, uint64."""
    return memo.slots[_WORDS * slot + 2] >> _S56
