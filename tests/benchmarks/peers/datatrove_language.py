"""datatrove's language filter over texts: documents and MB per CPU second, one process, as JSON.

    python datatrove_language.py --texts texts.jsonl --model lid.176.ftz --work FOLDER

Run by bench_detectors.py with the Python that CORPUSFLOW_DATATROVE_PYTHON names. datatrove would download lid.176.bin: the
model given here is put where that download would lie, so nothing is fetched. It is lid.176.ftz, the compressed form that
corpusflow carries and measures itself with; the uncompressed file, which spares datatrove the unpacking of a row per n-gram, is
not at hand.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from datatrove_fineweb import place_model


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    for name in ("--texts", "--model", "--work"):
        parser.add_argument(name, required=True)
    args = parser.parse_args()
    os.environ["HF_HOME"] = os.path.join(args.work, "hf")
    place_model(args.model)
    from datatrove.data import Document
    from datatrove.pipeline.filters import LanguageFilter

    texts = [json.loads(line)["text"] for line in Path(args.texts).read_text(encoding="utf-8").splitlines()]
    size = sum(len(t.encode()) for t in texts)
    rates = {}
    for name, step in (
        ("keeps English", LanguageFilter(["en"])),
        ("labels only", LanguageFilter(label_only=True)),
    ):
        step.filter(Document(text="one line to load the model", id="0"))
        best = 1e9
        for _ in range(2):
            documents = [Document(text=t, id=str(i)) for i, t in enumerate(texts)]
            begin = time.process_time()
            for document in documents:
                step.filter(document)
            best = min(best, time.process_time() - begin)
        rates[name] = {"documents": len(texts) / best, "mb": size / best / 1e6}
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
