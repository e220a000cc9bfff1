"""MinHash signatures by other libraries: MB of text per CPU second, one process, as JSON.

    python minhash_peers.py texts.jsonl

Run by bench_dedup.py with any Python that has some of rensa, datasketch and datatrove (`pip install rensa datasketch
datatrove spacy nltk orjson`). Word 5-grams and 112 permutations each; the time to split words is counted, as it is in ours.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

WORD = re.compile(r"\w+")


def shingles(text: str) -> list[str]:
    words = WORD.findall(text.lower())
    return [" ".join(words[i : i + 5]) for i in range(max(1, len(words) - 4))]


def rensa(texts: Sequence[str], _: Path) -> None:
    from rensa import RMinHash

    for text in texts:
        signature = RMinHash(num_perm=112, seed=1)
        signature.update(shingles(text))
        signature.digest()


def datasketch(texts: Sequence[str], _: Path) -> None:
    from datasketch import MinHash

    for text in texts:
        signature = MinHash(num_perm=112)
        signature.update_batch([s.encode() for s in shingles(text)])


def datatrove(texts: Sequence[str], folder: Path) -> None:
    from datatrove.data import Document
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig

    step = MinhashDedupSignature(
        str(folder), MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8), language="en"
    )
    step.run(iter([Document(text=t, id=str(i)) for i, t in enumerate(texts)]), 0, 1)


def main() -> None:
    """See the module's docstring."""
    texts = [json.loads(line)["text"] for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    size = sum(len(t.encode()) for t in texts)
    rates: dict[str, float | str] = {}
    peers: dict[str, Callable[[Sequence[str], Path], None]] = {
        "rensa": rensa,
        "datasketch": datasketch,
        "datatrove": datatrove,
    }
    for name, peer in peers.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                peer(texts[:2], Path(folder))
                begin = time.process_time()
                peer(texts, Path(folder))
                rates[name] = size / (time.process_time() - begin) / 1e6
            except ImportError as e:
                rates[name] = f"not installed: {e.name}"
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
