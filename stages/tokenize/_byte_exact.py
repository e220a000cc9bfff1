"""Byte-level BPE vocabularies on our own kernels: their tables, and how the kernels are held against the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from stages.kernels import byte_bpe
from stages.kernels.byte_bpe import ByteBpe
from stages.kernels.pretokens import Pattern
from stages.kernels.token_memo import LONGEST, Memo, new_memo
from stages.kernels.token_tables import hash_table, pair_set

from ._spm_exact import KernelEncoder, scratch

#: Why `byte_encoder` gives None.
UNREACHED: Final = f"it has a token of more than {LONGEST} bytes that its merges do not give"
_NOTHING: Final = 4  # bits of a table that is not used


def pairs_of(ranks: Mapping[bytes, int]) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values of the merge table of a vocabulary whose ids are the order of merging, as in tiktoken files.

    Two tokens merge if their bytes one after the other are a token, as early as its id is low.
    """
    keys, values = [], []
    for token, rank in ranks.items():
        for cut in range(1, len(token)):
            left, right = ranks.get(token[:cut]), ranks.get(token[cut:])
            if left is not None and right is not None:
                keys.append(left << 32 | right)
                values.append(rank << 32 | rank)
    return np.array(keys, np.uint64), np.array(values, np.uint64)


def pairs_of_merges(merges: Sequence[tuple[str, str]], ids: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values of the merge table of an ordered list of merges, as in tokenizer.json. KeyError: no such token."""
    keys = [ids[left] << 32 | ids[right] for left, right in merges]
    values = [rank << 32 | ids[left + right] for rank, (left, right) in enumerate(merges)]
    return np.array(keys, np.uint64), np.array(values, np.uint64)


def _whole(tokens: Mapping[bytes, int]) -> Memo:
    kept = {t: i for t, i in tokens.items() if len(t) <= LONGEST}
    bits = max(4, (2 * len(kept)).bit_length())
    memo = new_memo(bits)
    lengths = np.fromiter(map(len, kept), np.int64, len(kept))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    memo = memo._replace(keys=np.zeros(int(lengths.sum()) + 8, np.uint8))
    data = np.frombuffer(b"".join(kept), np.uint8)
    byte_bpe.fill_whole(memo, data, offsets, np.fromiter(kept.values(), np.int32, len(kept)))
    return memo


def _is_start(byte: int) -> bool:
    return byte & 0xC0 != 0x80


def _length(lead: int) -> int:
    return 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def inner_pairs(tokens: Iterable[bytes]) -> tuple[set[tuple[int, int]], set[bytes], set[bytes]]:
    """What tokens hold around the character borders inside them.

    Returns:
        Pairs of whole characters; and where one side is broken, what stands in front and what behind.
    """
    whole: set[tuple[int, int]] = set()
    left: set[bytes] = set()
    right: set[bytes] = set()
    for token in tokens:
        starts = [i for i in range(1, len(token)) if _is_start(token[i])]
        if not starts:
            continue
        ends = [*starts[1:], len(token)]
        first = 0
        for start, end in zip(starts, ends, strict=True):
            a, b = token[first:start], token[start:end]
            first = start
            try:
                whole.add((ord(a.decode()), ord(b.decode())))
            except (UnicodeDecodeError, TypeError):
                left.add(a)
                right.add(b)
    return whole, left, right


def _ending_with(suffix: bytes) -> tuple[slice, ...]:
    """Code points whose UTF-8 ends with continuation bytes, or the one whole character that `suffix` is."""
    if _is_start(suffix[0]):
        try:
            code = ord(suffix.decode())
        except (UnicodeDecodeError, TypeError):
            return ()  # a broken character in front of a border: not in valid UTF-8
        return (slice(code, code + 1),)
    bits, step = 0, 1
    for byte in suffix[-3:]:
        bits, step = bits << 6 | byte & 0x3F, step << 6
    return (slice(bits, 0x110000, step),)


def _starting_with(prefix: bytes) -> slice:
    """Code points whose UTF-8 starts with `prefix`, a lead byte and some of what follows it."""
    size = _length(prefix[0])
    code = prefix[0] & (0x7F if size == 1 else 0x7F >> size)
    for byte in prefix[1:size]:
        code = code << 6 | byte & 0x3F
    shift = 6 * (size - min(size, len(prefix)))
    return slice(code << shift, (code + 1) << shift)


def _with_edges(pattern: Pattern, left: Iterable[bytes], right: Iterable[bytes]) -> Pattern:
    classes = pattern.classes.copy()
    for suffix in left:
        for places in _ending_with(suffix):
            classes[places] |= byte_bpe.LEFT
    for prefix in right:
        classes[_starting_with(prefix)] |= byte_bpe.RIGHT
    classes.flags.writeable = False
    return pattern._replace(classes=classes)


def byte_encoder(
    pattern: Pattern,
    pairs: tuple[np.ndarray, np.ndarray],
    tokens: Mapping[bytes, int],
    *,
    by_whole: bool,
    memo_bits: int = 20,
) -> KernelEncoder | None:
    """An encoder; None where a token that merging never gives is longer than what the kernels find whole.

    Args:
        pattern: where text is cut.
        pairs: keys and values of the merge table.
        tokens: ids by bytes, all single bytes among them.
        by_whole: a piece that equals a token is that token, whatever merging would give.
    """
    ids = np.array([tokens[bytes([b])] for b in range(256)], np.int32)
    ids.flags.writeable = False
    held, left, right = inner_pairs(tokens)
    model = ByteBpe(
        pattern=_with_edges(pattern, left, right),
        pairs=hash_table(*pairs),
        bytes=ids,
        whole=new_memo(_NOTHING),
        by_whole=False,
        joined=pair_set(held),
    )
    if by_whole and not _all_reached(model, tokens):
        long = {t: i for t, i in tokens.items() if len(t) > LONGEST}
        if long and not _all_reached(model, long):
            return None
        model = model._replace(whole=_whole(tokens), by_whole=True)
    return KernelEncoder(model, byte_bpe.encode, scratch, new_memo(memo_bits))


def _all_reached(model: ByteBpe, tokens: Mapping[bytes, int]) -> bool:
    """Whether merging its bytes gives each token, so that taking it whole makes no difference."""
    data = np.frombuffer(b"".join(tokens), np.uint8)
    offsets = np.concatenate([[0], np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)))])
    longest = max(map(len, tokens))
    # of a token that no merge is of, every byte
    room = scratch(16, longest + 2)._replace(ids=np.zeros(longest, np.int32))
    return bool(byte_bpe.all_reached(model, room, data, offsets, np.fromiter(tokens.values(), np.int32, len(tokens))))
