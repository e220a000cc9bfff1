"""One large WARC.gz: split, read by one worker and by two, and by two of which one is killed.

    CORPUSFLOW_TEST_DATA=… pytest -m bench -s tests/benchmarks/bench_large_file.py

Needs CORPUSFLOW_TEST_DATA: the file repeats the records of warc/*.warc.gz, with record ids of their own and a gzip member each,
up to CORPUSFLOW_BENCH_LARGE_MB megabytes as stored (300; 3000 takes some three minutes to write and as long to read). Asserts
that every record is read once, whatever happens, and what a killed worker costs; prints times and memory.
"""

from __future__ import annotations

import math
import os
import signal
import struct
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crash
import pytest
from fastwarc.warc import ArchiveIterator

import corpusflow
from corpusflow.api import Silent
from corpusflow.worker import Outcome

DATA = os.environ.get("CORPUSFLOW_TEST_DATA")
SIZE = int(float(os.environ.get("CORPUSFLOW_BENCH_LARGE_MB", "300")) * 1e6)
pytestmark = [pytest.mark.bench, pytest.mark.skipif(not DATA, reason="needs $CORPUSFLOW_TEST_DATA")]


@dataclass(frozen=True)
class Record:
    """A WARC record whose id is yet to be set; its block is deflated once for all copies."""

    head: bytes
    block: bytes
    deflated: bytes

    def member(self, name: str) -> bytes:
        """A gzip member of its own: the head in blocks that end at a byte, then the block's."""
        head = b"WARC/1.0\r\nWARC-Record-ID: <urn:uuid:%s>\r\n%s" % (name.encode(), self.head)
        deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
        start = deflate.compress(head) + deflate.flush(zlib.Z_FULL_FLUSH)
        check = zlib.crc32(self.block, zlib.crc32(head))
        tail = struct.pack("<II", check, len(head) + len(self.block))
        return b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + start + self.deflated + tail


def records_of(path: Path) -> Iterator[Record]:
    for record in ArchiveIterator(str(path), parse_http=False):
        block = record.reader.read() + b"\r\n\r\n"
        headers = [(k, v) for k, v in record.headers.items() if k.lower() != "warc-record-id"]
        head = "".join(f"{k}: {v}\r\n" for k, v in headers).encode() + b"\r\n"
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        yield Record(head, block, deflate.compress(block) + deflate.flush())


@dataclass(frozen=True)
class Large:
    path: Path
    records: int
    payload: int


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    path = tmp_path_factory.mktemp("large") / "large.warc.gz"
    found = [r for source in sorted((Path(str(DATA)) / "warc").glob("*.warc.gz")) for r in records_of(source)]
    count = size = payload = 0
    began = time.perf_counter()
    with path.open("wb", buffering=1 << 20) as out:
        while size < SIZE:
            for record in found:
                size += out.write(record.member(str(uuid.UUID(int=count))))
                payload += len(record.block)
                count += 1
                if size >= SIZE:
                    break
    took = time.perf_counter() - began
    print(
        f"\n{count:,} records, {size / 1e6:,.0f} MB as stored, {payload / 1e6:,.0f} MB of blocks; written in {took:.0f} s"
    )
    yield Large(path, count, payload)
    path.unlink()


def split_size() -> int:
    return min(64 << 20, max(1 << 20, SIZE // 24))


class Watch(Silent):
    """Counts tasks and second tries; kills a worker at work after `kill_after` tasks."""

    def __init__(self, kill_after: int | None = None) -> None:
        self.done = 0
        self.again: list[str] = []
        self._kill_after = kill_after

    def task(self, outcome: Outcome, totals: Mapping[int, Mapping[str, Any]]) -> None:
        self.done += 1
        if self.done == self._kill_after:
            busy: list[int] = []
            while not busy:
                time.sleep(0.05)
                busy = [pid for pid, what in crash.descendants(os.getpid()).items() if what.startswith("ray::_run")]
            os.kill(min(busy), signal.SIGKILL)

    def message(self, text: str) -> None:
        self.again.append(text)


def config(large: Large, run: Path, workers: int) -> dict[str, Any]:
    """Reads every record, and stores no more of it than its address; splits are small enough for both to end together."""
    return {
        "name": "large",
        "input": [{"ingest.warc": {"paths": [str(large.path)], "split_size": split_size()}}],
        "stages": ["access.url"],
        "run": {"dir": str(run), "executor": "ray", "workers": workers},
    }


def test_one_large_file(large: Large, tmp_path: Path) -> None:
    print(
        f"{'':24} {'tasks':>6} {'again':>6} {'s':>7} {'MB/s as stored':>15} {'of blocks':>10} {'largest worker, MB':>19}"
    )
    seconds: dict[str, float] = {}
    digests = set()
    runs = {"warm": (2, None), "one worker": (1, None), "two workers": (2, None), "two, one of them killed": (2, 5)}
    for what, (workers, kill_after) in runs.items():
        watch = Watch(kill_after)
        settings = config(large, tmp_path / what.replace(" ", "-"), workers)
        if what == "warm":  # compiles kernels
            corpusflow.run({**settings, "run": {**settings["run"], "limit": 200}})
            continue
        result = corpusflow.run(settings, progress=watch)
        (cost,) = result.steps
        seconds[what] = cost.seconds
        digests.add(result.digest)
        found = result.counts[0]
        assert found.entered == large.records, "every record once"
        assert not found.quarantined
        assert cost.tasks == watch.done == math.ceil(large.path.stat().st_size / split_size())
        assert len(watch.again) == (kill_after is not None), watch.again
        print(
            f"{what:24} {cost.tasks:6} {len(watch.again):6} {cost.seconds:7.1f} {SIZE / 1e6 / cost.seconds:15.1f} "
            f"{large.payload / 1e6 / cost.seconds:10.1f} {result.peak_memory / 1e6:19.0f}"
        )
        assert result.peak_memory < 800e6
    assert len(digests) == 1, "a killed worker changed the result"
    one, two, killed = seconds.values()
    print(f"two workers take {two / one:.2f} of one's time (wanted: 0.6); the kill cost {killed - two:.1f} s", end="")
    print(f" and a second reading of one split in {math.ceil(SIZE / split_size())}")
