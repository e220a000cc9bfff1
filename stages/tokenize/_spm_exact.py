"""A sentencepiece model on our own kernels: the tables they need, and the proof that their ids are the library's.

What is required of a model is checked one by one when it is loaded, each with the reason it is needed; the kernels are then
held against the library on texts made to break them. Where anything fails the library does the work, and `refusal` says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import metadata
from typing import Any, Final

import numpy as np
import pyarrow as pa

from stages.kernels import spm_bpe, spm_unigram
from stages.kernels.buffers import text_buffers
from stages.kernels.double_array import MOST_NODES, double_array
from stages.kernels.spm_bpe import BpeModel, Scratch
from stages.kernels.spm_normalize import DUMMY_PREFIX, META, REMOVE_EXTRA, SUFFIX, Rules, read_rules
from stages.kernels.spm_unigram import Paths, UnigramModel
from stages.kernels.token_memo import Memo, new_memo
from stages.kernels.token_tables import byte_trie, hash_table, joined_pairs

from ._spm_model import BPE, BYTE, CONTROL, NORMAL, UNIGRAM, UNKNOWN, UNUSED, USER_DEFINED, SpmModel

_START_BYTES: Final = 1 << 20
_KEPT_SYMBOLS: Final = 1 << 22
UNIGRAM_VERSIONS: Final = ("0.2.3",)


def refusal(model: SpmModel) -> str | None:
    """Why the kernels cannot be proved to give this model's ids; None where they can."""
    if model.kind not in (BPE, UNIGRAM):
        return "it is neither a BPE nor a unigram model"
    if not model.escape_whitespaces:
        return "it does not write spaces as U+2581, which is how the kernels tell them from text"
    scores = np.array([s for s, k in zip(model.scores, model.kinds, strict=True) if k == NORMAL], np.float32)
    if not np.isfinite(scores).all():
        return "a score is not a number"
    if any(b"\0" in p for p in model.pieces):
        return "a piece holds NUL, at which the library's tables of pieces end"
    try:
        _rules(model)
    except (ValueError, IndexError) as e:
        return f"its normaliser cannot be followed: {e}"
    if model.byte_fallback and model.kinds.count(BYTE) != 256:
        return "it falls back to bytes but does not have all 256"
    if not model.byte_fallback and UNKNOWN not in model.kinds:
        return "it has no piece for unknown characters"
    return _refusal_bpe(model, scores) if model.kind == BPE else _refusal_unigram(model)


def _refusal_bpe(model: SpmModel, scores: np.ndarray) -> str | None:
    if UNUSED in model.kinds:
        return "it has unused pieces, which the library splits again by the merges that made them"
    if any(len(_text(p)) < 2 for p, k in zip(model.pieces, model.kinds, strict=True) if k in (CONTROL, UNKNOWN, BYTE)):
        return "a control or byte piece is a single character, which versions of the library treat differently"
    if ((scores == 0) & np.signbit(scores)).any() and ((scores == 0) & ~np.signbit(scores)).any():
        return "it has scores of 0 and of -0, which versions of the library order differently"
    return None


def _refusal_unigram(model: SpmModel) -> str | None:
    if NORMAL not in model.kinds:
        return "it has no normal piece, by whose lowest score the library reckons that of an unknown character"
    installed = metadata.version("sentencepiece")
    if installed not in UNIGRAM_VERSIONS:
        # how float32 path scores are added differs between versions, and only long documents would show it
        return f"unigram ids were proved equal for sentencepiece {', '.join(UNIGRAM_VERSIONS)}, not {installed}"
    if (
        sum(map(len, model.pieces)) > MOST_NODES
    ):  # the beginnings of pieces are counted only where there may be too many
        nodes = len({p[:k] for p in model.pieces for k in range(1, len(p) + 1)})
        if nodes > MOST_NODES:
            return f"its pieces have {nodes:,} different beginnings, the tables hold {MOST_NODES:,}"
    return None


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", "replace")


def bpe_model(model: SpmModel) -> BpeModel:
    """Tables of a BPE model that `refusal` has nothing against.

    Symbols are the characters that occur in pieces and the pieces. Two symbols merge if their strings one after the other
    are a piece, as early as that piece's score is high: every cut of every piece into two symbols is an entry.
    """
    normal = {
        p.replace(META, b" ").decode(): i
        for i, (p, k) in enumerate(zip(model.pieces, model.kinds, strict=True))
        if k in (NORMAL, USER_DEFINED) and b" " not in p  # a real space never reaches the vocabulary
    }
    symbols = {c: n for n, c in enumerate(sorted({c for piece in normal for c in piece}))}
    for piece in normal:
        symbols.setdefault(piece, len(symbols))
    characters = np.full(0x110000, -1, np.int32)
    ids = np.full(len(symbols), -1, np.int32)
    for text, n in symbols.items():
        ids[n] = normal.get(text, -1)
        if len(text) == 1:
            characters[ord(text)] = n
    scores = np.array(model.scores, np.float32)
    ranks = np.unique(-scores, return_inverse=True)[1]
    keys, values = [], []
    for piece, i in normal.items():
        for cut in range(1, len(piece)):
            left, right = symbols.get(piece[:cut]), symbols.get(piece[cut:])
            if left is not None and right is not None:
                keys.append(left << 32 | right)
                values.append(int(ranks[i]) << 32 | symbols[piece])
    own = _of_kind(model, USER_DEFINED)
    seen = [(p, i) for p, i in own if b" " not in p]
    for array in (characters, ids):
        array.flags.writeable = False
    return BpeModel(
        rules=_rules(model),
        joined=joined_pairs(normal),
        symbols=byte_trie([p.replace(META, b" ") for p, _ in seen], [i for _, i in seen]),
        has_symbols=bool(seen),
        characters=characters,
        pairs=hash_table(np.array(keys, np.uint64), np.array(values, np.uint64)),
        ids=ids,
        bytes=_byte_ids(model),
        unknown=-1 if model.byte_fallback else model.kinds.index(UNKNOWN),
        most=3 if model.byte_fallback and " " not in normal else 1,
    )


def unigram_model(model: SpmModel) -> UnigramModel:
    """Tables of a unigram model that `refusal` has nothing against."""
    scores = np.array(model.scores, np.float32)
    for piece, i in _of_kind(model, USER_DEFINED):
        scores[i] = np.float32(0.1 * (len(piece) - 1))
    found = [
        (p.replace(META, b" "), i) for kind in (NORMAL, USER_DEFINED) for p, i in _of_kind(model, kind) if b" " not in p
    ]
    normal = [i for _, i in _of_kind(model, NORMAL)]
    unknown_score = np.float32(scores[normal].min() - np.float32(10.0))  # kUnkPenalty
    used = scores[[i for _, i in found]]
    by_byte = _byte_ids(model)
    if model.byte_fallback:
        scores[by_byte] = unknown_score
        scores[by_byte[0x80:0xC0]] = 0.0
    else:
        scores[model.kinds.index(UNKNOWN)] = unknown_score
    scores.flags.writeable = False
    return UnigramModel(
        rules=_rules(model),
        joined=joined_pairs([p.decode() for p, _ in found]),
        pieces=double_array([p for p, _ in found], [i for _, i in found], used),
        scores=scores,
        unknown_score=float(unknown_score),
        largest=float(max(np.abs(used).max(), abs(unknown_score))),
        bytes=by_byte,
        unknown=-1 if model.byte_fallback else model.kinds.index(UNKNOWN),
        most=3 if model.byte_fallback and b" " not in {p for p, _ in found} else 1,
    )


def _of_kind(model: SpmModel, kind: int) -> list[tuple[bytes, int]]:
    return [(p, i) for i, (p, k) in enumerate(zip(model.pieces, model.kinds, strict=True)) if k == kind]


def _rules(model: SpmModel) -> Rules:
    flags = (
        DUMMY_PREFIX * model.add_dummy_prefix
        | REMOVE_EXTRA * model.remove_extra_whitespaces
        | SUFFIX * model.suffix_whitespace
    )
    return read_rules(model.charsmap, [p for p, _ in _of_kind(model, USER_DEFINED)], flags)


def _byte_ids(model: SpmModel) -> np.ndarray:
    """Id of each byte's piece (<0x41>), int32 (256,); 0 where there are none."""
    ids = np.zeros(256, np.int32)
    for piece, i in _of_kind(model, BYTE):
        ids[int(piece[3:5], 16)] = i
    ids.flags.writeable = False
    return ids


def scratch(text_bytes: int, symbols: int) -> Scratch:
    return Scratch(
        np.zeros(text_bytes, np.uint8),
        np.zeros(symbols, np.int32),
        np.zeros(symbols, np.int32),
        np.zeros(symbols, np.int64),
        np.zeros(2 * symbols, np.int32),
        np.zeros(2 * symbols + 2, np.int64),
        np.zeros(symbols, np.int32),
        np.zeros(1024, np.int32),
    )


def _paths(text_bytes: int, symbols: int) -> Paths:
    return Paths(
        np.zeros(text_bytes, np.uint8),
        np.zeros(symbols, np.float64),
        np.zeros(symbols, np.float64),
        np.zeros(symbols, np.float32),
        np.zeros(symbols, np.int32),
        np.zeros(symbols, np.int32),
        np.zeros(symbols, np.int32),
        np.zeros(1024, np.int32),
    )


class KernelEncoder:
    """A model on the kernels. One caller at a time; others wait."""

    def __init__(self, tables: Any, encode: Any, room: Callable[[int, int], Any], memo: Memo) -> None:
        self._tables = tables
        self._encode = encode
        self._room = room
        self.memo = memo
        self._scratch = room(_START_BYTES, 4096)
        self._lock = threading.Lock()

    def encode(self, text: pa.Array, before: int | None, after: int | None) -> tuple[np.ndarray, np.ndarray]:
        """See `Encoder`."""
        offsets, data, valid = text_buffers(text)
        ends = np.zeros(len(text) + 1, np.int64)
        state = np.zeros(3, np.int64)
        size = int(offsets[-1] - offsets[0]) // 2 + 3 * len(text) + 1024
        out = np.empty(size, np.int32)
        with self._lock:
            while True:
                status = self._encode(
                    self._tables,
                    self.memo,
                    self._scratch,
                    offsets,
                    data,
                    valid,
                    -1 if before is None else before,
                    -1 if after is None else after,
                    out,
                    ends,
                    state,
                )
                if status == spm_bpe.DONE:
                    if len(self._scratch.starts) > _KEPT_SYMBOLS:  # one huge document must not hold memory for good
                        self._scratch = self._room(_START_BYTES, 4096)
                    return ends, out[: state[spm_bpe.WRITTEN]]
                if status == spm_bpe.GROW_OUT:
                    out = np.concatenate(
                        [out[: state[spm_bpe.WRITTEN]], np.empty(2 * int(state[spm_bpe.NEEDED]), np.int32)]
                    )
                elif status == spm_bpe.GROW_TEXT:
                    self._scratch = self._room(2 * len(self._scratch.text), len(self._scratch.starts))
                else:
                    self._scratch = self._room(len(self._scratch.text), 2 * int(state[spm_bpe.NEEDED]))


def kernel_encoder(model: SpmModel, memo_bits: int = 20) -> KernelEncoder:
    """The encoder of a model that `refusal` has nothing against."""
    if model.kind == BPE:
        return KernelEncoder(bpe_model(model), spm_bpe.encode, scratch, new_memo(memo_bits))
    return KernelEncoder(unigram_model(model), spm_unigram.encode, _paths, new_memo(memo_bits))


#: Texts that have told implementations apart: spaces, unknowns in a row, composition, controls, long runs, every script.
PROBES: Final = (
    "The river rose in the night; it's 1,024 sacks, 20240801 1111111.  Two  spaces \t\n\r\n trailing  ",
    " leading, \u2581meta\u2581 \u2581\u2581, nbsp\u00a0 ideographic\u3000space",
    "昨夜河水上涨，清晨时低处的道路已被淹没。河水上漲，２０２４年①㍿ｶﾞ",
    "é e\u0301 \u1e9b\u0323 \ufb01 \u0958 \u1100\u1161\u11a8 각 A\u030a \u212b \ufdfa",
    "\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea\U0001f1e9 \u200b\ufeff\u00ad \x00\x01\x7f\x85 \U00010000\U0010fffd\ue000",
    "Река कखग ไทย 한국어 العربية עברית ქართული አማርኛ ᚠᚢᚦ 𝔘𝔫𝔦 \ud7ff\uffff",
    "<s></s><unk><pad><0x41><0x0A> <|endoftext|> [INST]",
    "a" * 300 + "ab" * 200 + " " * 100 + "=" * 100 + "昨" * 100 + "\u0301" * 50,
    "",
    " ",
    "\u2581",
)


def disagreement(ours: Any, library: Any) -> str | None:
    """The first probe that two encoders give other ids for, or None."""
    for probe in PROBES:
        column = pa.array([probe], pa.large_string())
        if not np.array_equal(ours.encode(column, None, None)[1], library.encode(column, None, None)[1]):
            return probe
    return None
