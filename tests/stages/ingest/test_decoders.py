"""Decoders of single members: bounded output whatever is fed, the place of the end, damage as an exception."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import random

import pytest
import zstandard

from stages.ingest._decoders import DAMAGE, AnyDecoder, Bz2Decoder, GzipDecoder, XzDecoder, ZstdDecoder
from stages.ingest._members import pieces

KINDS = {"gzip": GzipDecoder, "zstd": ZstdDecoder, "bz2": Bz2Decoder, "xz": XzDecoder}
PACK = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "bz2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
}


def decode(decoder: AnyDecoder, data: bytes, cut: int | None = None) -> tuple[list[bytes], int]:
    """(what each feed gave, where the member ends)."""
    view = memoryview(data)
    outs = []
    at = 0
    while not decoder.finished():
        part = view[at : at + (cut or decoder.slice_bytes)]
        out, used = decoder.feed(part)
        outs.append(out)
        at += used
        assert out or used, "it would never end"
    return outs, at


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, 1_000, 1_300_000])
def test_members_end_where_they_end(kind: str, size: int) -> None:
    rng = random.Random(size)
    for content in (bytes(size), rng.randbytes(size), b"".join(b"%d, " % i for i in range(size // 6))):
        packed = PACK[kind](content)
        outs, end = decode(KINDS[kind](), packed + b"what follows" * 10)
        assert b"".join(outs) == content
        assert end == len(packed)


@pytest.mark.parametrize("kind", KINDS)
def test_long_members_of_little_follow_each_other(kind: str) -> None:
    """Their output comes in several parts for one slice of input, which holds the next member's start, too."""
    contents = [bytes([i]) * 2_500_000 + b"%d" % i for i in range(4)]
    packed = b"".join(map(PACK[kind], contents))
    found = list(pieces(io.BytesIO(packed)))
    assert [p.error for p in found if p.error] == []
    whole: dict[int, bytes] = {}
    for piece in found:
        whole[piece.offset] = whole.get(piece.offset, b"") + piece.data
    assert list(whole.values()) == contents
    assert [packed[at : at + 2] for at in whole] == [packed[:2]] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_bombs_come_out_in_small_pieces(kind: str) -> None:
    packed = PACK[kind](bytes(20 << 20))
    outs, _ = decode(KINDS[kind](), packed)
    assert sum(map(len, outs)) == 20 << 20
    assert max(map(len, outs)) <= 2 << 20
    assert max(len(p.data) for p in pieces(io.BytesIO(packed))) <= 2 << 20


def test_zstd_frames_of_every_form() -> None:
    rng = random.Random(1)
    text = (
        b" ".join(rng.choices([b"river", b"road", b"night", bytes(40)], k=60_000))
        + rng.randbytes(400_000)
        + bytes(900_000)
    )
    for level, checksum, content_size, window in itertools.product((1, 9), (False, True), (False, True), (10, 17, 23)):
        parameters = zstandard.ZstdCompressionParameters.from_level(
            level, write_checksum=checksum, write_content_size=content_size, window_log=window
        )
        compressor = zstandard.ZstdCompressor(compression_params=parameters)
        for content in (b"", b"x", text[:200], text[:70_000], text):
            packed = compressor.compress(content)
            for cut in (None, 100, 5_000, 140_000):
                outs, end = decode(ZstdDecoder(), packed + b"\x28\xb5\x2f\xfd more", cut)
                assert (b"".join(outs), end) == (content, len(packed))
                assert max(map(len, outs)) <= 1 << 20
        stream = compressor.compressobj()
        packed = stream.compress(text[:9_000]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        packed += stream.compress(text) + stream.flush()
        outs, end = decode(ZstdDecoder(), packed)
        assert (b"".join(outs), end) == (text[:9_000] + text, len(packed))


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_an_exception(kind: str) -> None:
    content = b"".join(b"%d, " % i for i in range(40_000))
    pack = zstandard.ZstdCompressor(write_checksum=True).compress if kind == "zstd" else PACK[kind]
    packed = pack(content)
    for seed in range(12):
        rng = random.Random(seed)
        spoilt = bytearray(packed)
        spoilt[rng.randrange(12, len(spoilt))] ^= 1 << rng.randrange(8)
        pieces_of = list(pieces(io.BytesIO(bytes(spoilt))))
        assert pieces_of[-1].error is not None
        try:
            outs, _ = decode(KINDS[kind](), bytes(spoilt))
        except (*DAMAGE, AssertionError):
            continue
        assert b"".join(outs) == content, "a bit that means nothing"
