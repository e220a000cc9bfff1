"""quality.perplexity on a bigram model small enough to reckon with by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from corpusflow import ConfigError, check_stage
from corpusflow.rules import evaluate
from stages.quality.perplexity import Perplexity, PerplexityRule, PerplexityScore, normalise

ARPA = """\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1.0\t<unk>
0\t<s>\t-0.5
-0.6\t</s>
-0.4\tthe\t-0.3
-0.7\triver\t-0.2

\\2-grams:
-0.2\t<s> the
-0.1\tthe river
-0.3\triver </s>

\\end\\
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "tiny.arpa"
    path.write_text(ARPA)
    return str(path)


def test_lines_and_tokens_add_up(model: str) -> None:
    pytest.importorskip("kenlm")
    texts = ["The river", "the river\n\nthe sea", None, "", "\n"]
    batch = pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.large_string())})
    out = PerplexityScore(model=model).score(batch)
    # the sea: <s> the -0.2; the: backoff -0.3, <unk> -1.0; </s> after <unk>: -0.6
    assert out.column("quality.lm_log10").to_pylist() == pytest.approx([0.6, 0.6 + 2.1, None, None, None], abs=1e-6)
    assert out.column("quality.lm_tokens").to_pylist() == [3, 6, None, None, None]
    check_stage(Perplexity(model=model, max_perplexity=100))


def test_threshold_is_on_the_perplexity() -> None:
    columns = {
        "quality.lm_log10": pa.array([6.0, 6.1, None]),
        "quality.lm_tokens": pa.array([3, 3, None]),
        "language.code": pa.array(["en", "de", "en"]),
    }
    assert evaluate(PerplexityRule(max_perplexity=100.0).rules(), columns, 3).kept.tolist() == [True, False, True]
    assert evaluate(PerplexityRule(max_perplexity={"de": 1000.0}).rules(), columns, 3).kept.all()
    with pytest.raises(ConfigError, match=r"quality.perplexity.max_perplexity: 'german' is not among"):
        PerplexityRule(max_perplexity={"german": 1000.0})
    assert PerplexityRule().rules() == ()


def test_normalisation_is_ccnets() -> None:
    assert normalise("  Café № 12：“Où”…\x07 ") == 'cafe № 00:"ou"...'


def test_a_file_that_is_no_model_and_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    junk = tmp_path / "junk.arpa"
    junk.write_text("nothing")
    batch = pa.RecordBatch.from_pydict({"text": pa.array(["x"], pa.large_string())})
    try:
        import kenlm  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(ConfigError, match="needs KenLM"):
            PerplexityScore(model=str(junk)).score(batch)
    else:
        with pytest.raises(ConfigError, match="no KenLM model"):
            PerplexityScore(model=str(junk)).score(batch)
