"""access.url: memory of a million list entries, and addresses per CPU second against them.

pytest -m bench -s tests/benchmarks/bench_url.py
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from stages.access.url import UrlScore

pytestmark = pytest.mark.bench

MEMORY = """
import re, sys
from stages.access.url import UrlScore

def kilobytes(name):  # ru_maxrss begins with that of the process it was forked from
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])

UrlScore().warm()
before = kilobytes("VmRSS")
UrlScore(lists=sys.argv[1]).opened
print((kilobytes("VmHWM") - before) * 1024)
"""


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """900,000 domains and 100,000 addresses."""
    folder = tmp_path_factory.mktemp("lists")
    rng = random.Random(1)
    for name in ("adult", "phishing"):
        (folder / name).mkdir()
    hosts = (f"{rng.getrandbits(48):x}-site{i}.example{i % 97}.com\n" for i in range(900_000))
    (folder / "adult" / "domains").write_text("".join(hosts))
    (folder / "phishing" / "urls").write_text(
        "".join(f"host{i}.net/a/{rng.getrandbits(40):x}\n" for i in range(100_000))
    )
    return folder


def test_a_million_entries_take_less_than_200_mb(lists: Path) -> None:
    out = subprocess.run([sys.executable, "-c", MEMORY, str(lists)], capture_output=True, text=True, check=True).stdout
    print(f"\n1,000,000 entries: {int(out) / 1e6:.0f} MB at the peak of loading")
    assert int(out) < 200e6


def test_addresses_per_second(lists: Path) -> None:
    rng = random.Random(2)
    listed = (lists / "adult" / "domains").read_text().split()
    urls = [
        f"https://www.{rng.choice(listed) if i % 10 == 0 else f'site{rng.getrandbits(20)}.blogspot.co.uk'}"
        f"/path/to/{rng.getrandbits(50)}/page.html?x={i}&y=2"
        for i in range(200_000)
    ]
    batch = pa.record_batch([pa.array(urls)], names=["url"])
    stage = UrlScore(lists=str(lists), words=("casino", "poker"))
    assert stage.score(batch).column("url.list").null_count == 180_000
    best = 1e9
    for _ in range(5):
        start = time.process_time()
        stage.score(batch)
        best = min(best, time.process_time() - start)
    print(f"\n{len(urls) / best / 1e6:.2f} million addresses per CPU second")
    assert len(urls) / best > 200_000
