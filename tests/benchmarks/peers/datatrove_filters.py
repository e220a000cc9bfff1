"""datatrove's Gopher, repetition, C4 and FineWeb filters on some texts: CPU seconds of each, as JSON.

    python datatrove_filters.py texts.jsonl

Run by bench_quality.py with the Python of an environment that has datatrove (`pip install 'datatrove[processing]' spacy`).
Every filter sees every text, none is spared what an earlier one has dropped: the signals beside it are measured so, too.
What is loaded once (spaCy's rules) is loaded before the clock starts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main() -> None:
    """See the module's docstring."""
    from datatrove.data import Document
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
    )

    texts = [json.loads(line)["text"] for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    warm = "The river rose in the night, and by morning the lower road was under water. Nobody had expected it.\n" * 20
    seconds: dict[str, float] = {}
    for kind in (GopherRepetitionFilter, GopherQualityFilter, C4QualityFilter, FineWebQualityFilter):
        step = kind()
        step.filter(Document(text=warm, id="warm"))
        documents = [Document(text=t, id=str(i)) for i, t in enumerate(texts)]
        start = time.process_time()
        for document in documents:
            step.filter(document)
        seconds[kind.__name__] = time.process_time() - start
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
