"""Dolma's own Gopher attributes of some texts, for test_dialect_dolma.py: run by a Python that has dolma (`pip install dolma`).

python dolma_attributes.py texts.jsonl > attributes.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """One line a text: its attributes by gopher_v1 and by gopher_v2, in the tagger's order."""
    from dolma.core.data_types import Document
    from dolma.core.registry import TaggerRegistry

    taggers: list[Any] = [TaggerRegistry.get(name)() for name in ("gopher_v1", "gopher_v2")]
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        document = Document(source="test", version=None, id="1", text=json.loads(line)["text"])
        found = [[(s.type, s.score) for s in t.predict(document).spans] for t in taggers]
        print(json.dumps(found))


if __name__ == "__main__":
    main()
