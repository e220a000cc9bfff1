"""Main text by trafilatura: MB of HTML per CPU second, one process, as JSON.

    python trafilatura_pages.py pages.jsonl

Run by bench_extract.py with any Python that has trafilatura (`pip install trafilatura lxml_html_clean`). A line is a page's
bytes in base64.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path


def main() -> None:
    """See the module's docstring."""
    import trafilatura

    pages = [base64.b64decode(json.loads(line)) for line in Path(sys.argv[1]).read_text(encoding="ascii").splitlines()]
    trafilatura.extract(pages[0])  # loads what it loads lazily
    begin = time.process_time()
    texts = [trafilatura.extract(page, include_comments=False, deduplicate=False) for page in pages]
    seconds = time.process_time() - begin
    size = sum(len(page) for page in pages)
    print(json.dumps({"rate": size / seconds / 1e6, "pages": len(pages), "texts": sum(t is not None for t in texts)}))


if __name__ == "__main__":
    main()
