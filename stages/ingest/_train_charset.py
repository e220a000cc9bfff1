"""Makes stages/kernels/charset_pairs.txt, by which encodings are told apart.

    python -m stages.ingest._train_charset DATA

Reads DATA/langid/lingua_train.jsonl.gz (sentences, CC BY). The traditional Chinese characters are those of the simplified
sentences, converted by OpenCC, which must be installed.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import unicodedata
from collections import defaultdict

from corpusflow import storage_for
from stages.kernels import charset_model


def main(root: str) -> None:
    """See the module's docstring."""
    import opencc  # type: ignore[import-not-found,unused-ignore]

    wanted = {name for names in charset_model.LANGUAGES.values() for name in names.split()}
    path = f"{root}/langid/lingua_train.jsonl.gz"
    texts: dict[str, list[str]] = defaultdict(list)
    for line in gzip.decompress(storage_for(path).get(path)).decode("utf-8").split("\n")[:-1]:
        record = json.loads(line)
        if record["kind"] == "sentences" and record["lang"] in wanted:
            texts[record["lang"]].append(unicodedata.normalize("NFC", record["text"]))
    convert = opencc.OpenCC("s2t").convert
    texts["zh-Hant"] = [convert(t) for t in texts["zh"]]
    target = os.path.join(os.path.dirname(charset_model.__file__), "charset_pairs.txt")
    storage_for(target).replace(target, charset_model.train(texts).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
