"""Every mistake a user can make on the command line or in a config: the exit status, what it says, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_runs import CONFIG, ROOT, write_config

from corpusflow.cli import COMMANDS
from corpusflow.runner import Runner

WARC = f"{ROOT}/sample_data/web/web-00.warc.gz"


def program(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The program as a shell would start it."""
    return subprocess.run(
        [sys.executable, "-m", "corpusflow", *arguments], capture_output=True, text=True, cwd=cwd or ROOT, timeout=120
    )


def config(folder: Path, text: str, **run: Any) -> Path:
    return write_config(folder, text, **run)


# ---- the config ----

CONFIGS: dict[str, tuple[str, list[str]]] = {
    "missing path": (
        "input:\n  - ingest.warc: {paths: [nowhere/a.warc.gz]}\nstages: [ingest.extract]\n",
        ["nowhere/a.warc.gz does not exist", "config.yaml:2", "relative ones start at"],
    ),
    "glob without a match": (
        "input:\n  - ingest.warc: {paths: ['nowhere/*.warc.gz']}\nstages: [ingest.extract]\n",
        ["no file matches nowhere/*.warc.gz", "config.yaml:2"],
    ),
    "unknown stage": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - ingest.extract\n  - quality.gofer\n",
        ["unknown stage 'quality.gofer'", "config.yaml:5", "did you mean quality.gopher"],
    ),
    "misspelt parameter": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - ingest.extract\n  - quality.gopher: {{min_word: 3}}\n",
        ["no parameter 'min_word'", "config.yaml:5", "did you mean min_words?"],
    ),
    "misspelt key": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstage: [ingest.extract]\n",
        ["unknown key 'stage'", "config.yaml:3", "did you mean stages?"],
    ),
    "wrong type": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - ingest.extract\n  - quality.gopher: {{min_words: many}}\n",
        ["quality.gopher.min_words", "many", "config.yaml:5"],
    ),
    "missing parameter": (
        "input:\n  - ingest.warc\nstages: [ingest.extract]\n",
        ["ingest.warc needs a value for 'paths'", "config.yaml:2"],
    ),
    "no input": ("stages: [ingest.extract]\n", ["a config needs an input", "ingest.warc"]),
    "nothing to do": (f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\n", ["nothing to do"]),
    "a Sink among the stages": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - export.parquet\n",
        ["export.parquet does not belong under stages", "move it to `output:`"],
    ),
    "pages whose text nobody makes": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - quality.gopher\noutput: [export.parquet]\n",
        ["config.yaml:4: ", "reads text, but ingest.warc gives pages as bytes", "put ingest.extract in front of it"],
    ),
    "pages whose text is made too late": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - dedup.exact\n  - ingest.extract\n",
        ["config.yaml:4: dedup.exact reads text", "put ingest.extract in front of it"],
    ),
    "pages that are exported as they are": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\noutput:\n  - export.parquet\n",
        ["config.yaml:4: export.parquet reads text"],
    ),
    "an archive that may hold pages": (
        f"input:\n  - ingest.archive: {{paths: [{WARC}]}}\nstages: [dedup.exact]\n",
        [
            "config.yaml:3: dedup.exact reads text, but ingest.archive gives pages as bytes",
            "hint: put ingest.extract in front of it",
            "ingest.archive: {…, pages: skip}",
        ],
    ),
    "an action that a stage does not know": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - ingest.extract\n"
        "  - clean.pii: {actions: {email: explode}}\n",
        ["config.yaml:5: ", "explode"],
    ),
    "a language that is none": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - ingest.extract\n"
        "  - language.identify: {keep: [english]}\n",
        ["config.yaml:5: language.identify.keep: 'english' is not among", "hint: did you mean en?"],
    ),
    "no language": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - ingest.extract\n  - language.identify: {{keep: []}}\n",
        ["config.yaml:5: language.identify.keep: an empty list keeps nothing", "hint: leave keep out"],
    ),
    "a model that is not there": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - ingest.extract\n"
        "  - tokenize.sentencepiece: {model: my.model}\n",
        ["my.model does not exist", "config.yaml:5"],
    ),
    "a user's stage file that is not there": (
        f"input:\n  - ingest.warc: {{paths: [{WARC}]}}\nstages:\n  - ./mine.py:Mine\n",
        ["./mine.py does not exist", "config.yaml:4"],
    ),
    "not YAML": ("input: [\n", ["not valid YAML", "config.yaml"]),
    "tabs": ("input:\n\t- ingest.warc\n", ["not valid YAML", "config.yaml:2", "hint: indent with spaces"]),
    "a glob without quotes": (
        "input:\n  - ingest.warc: {paths: [*.warc.gz]}\n",
        ["config.yaml:2", "in quotes: '*.jsonl'"],
    ),
    "a glob that could be an alias": ("input:\n  - ingest.warc: {paths: *all}\n", ["config.yaml:2", "in quotes"]),
    "a list of files without quotes": ("input:\n  - ingest.warc: {paths: @files}\n", ["config.yaml:2", "in quotes"]),
    "a home folder": (
        "input:\n  - ingest.warc: {paths: [~/a.warc.gz]}\nstages: [ingest.extract]\n",
        ["config.yaml:2: ~/a.warc.gz: ~ is a word of the shell", "hint: give the path: /"],
    ),
    "an alias": ("input: &a []\nstages: *a\n", ["anchors and aliases are not allowed"]),
    "a key twice": ("name: a\nname: b\n", ["key 'name' is given twice", "config.yaml:2"]),
}


@pytest.mark.parametrize(("text", "parts"), CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_mistakes_in_a_config(call: Any, tmp_path: Path, command: str, text: str, parts: list[str]) -> None:
    if command == "plan" and parts == ["nothing to do"]:
        pytest.skip("a plan of nothing is a plan")
    call(command, config(tmp_path, text)).fails(2, *parts)
    assert not (tmp_path / "run" / "plan.json").exists()


RUN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "misspelt run key": ({"worker": 2}, ["unknown key run.worker", "did you mean workers?"]),
    "wrong run value": ({"executor": "spark"}, ["run.executor", "spark"]),
}


@pytest.mark.parametrize(("run", "parts"), RUN.values(), ids=RUN)
def test_mistakes_in_the_run_section(call: Any, tmp_path: Path, run: dict[str, Any], parts: list[str]) -> None:
    call("run", config(tmp_path, CONFIG, **run)).fails(2, *parts)


def test_a_config_that_is_not_there(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    call("run", "configs/wed.yaml").fails(2, "configs/wed.yaml does not exist", "did you mean configs/web.yaml?")
    call("run", "configs").fails(2, "is a folder")
    call("plan", tmp_path / "x.yaml").fails(2, "does not exist", "hint")


OVERRIDES: dict[str, list[str]] = {
    "quality.gofer.min_words=3": ["no stage of this config is called 'quality.gofer'", "quality.gopher"],
    "quality.gopher.min_word=3": ["no parameter 'min_word'", "did you mean min_words?"],
    "quality.gopher.min_words": ["expected key=value"],
    "run.worker=3": ["unknown key run.worker", "did you mean workers?"],
    "run.workers=many": ["run.workers: ", "valid integer", "got 'many'"],
    "run.retention={all: [0.5]}": ["run.retention['all'][1]: Field required"],
    "run.retention={all: [0.5, 0.1]}": ["run.retention: all: a band is two shares"],
    "quality.gopher.min_words=abc": ["quality.gopher.min_words: Input should be a valid number", "got 'abc'"],
    "quality.gopher.min_words={en: abc}": ["quality.gopher.min_words", "abc"],
    "ingest.warc.paths=3": ["ingest.warc.paths: Input should be a valid list, got 3"],
    "language.identify.keep=[en, 3]": ["language.identify.keep[1]: Input should be a valid string, got 3"],
    "language.identify.keep=[english]": ["--set language.identify.keep=[english]: language.identify.keep: 'english'"],
    "ingest.warc.paths=[nowhere]": [" with --set ingest.warc.paths=[nowhere]: input file nowhere does not exist"],
    "stages.0.x=1": ["--set stages.0.x=1: ", "has no parameter 'x'"],
    "stages.99.x=1": ["entries 0 to 7"],
}


@pytest.mark.parametrize(("text", "parts"), OVERRIDES.items())
def test_mistakes_in_an_override(call: Any, tmp_path: Path, text: str, parts: list[str]) -> None:
    result = call("run", config(tmp_path, CONFIG), "--set", text)
    result.fails(2, f"--set {text.partition('=')[0]}", *parts)
    assert "config.yaml" not in result.err or " with --set " in result.err


def test_a_mistake_is_looked_for_where_it_was_made(call: Any, tmp_path: Path) -> None:
    good = ["--set", "quality.gopher.max_words=9000", "--set", "run.attempts=2"]
    wrong = CONFIG.replace("min_words: 50", "min_words: many")
    assert wrong != CONFIG
    result = call("run", config(tmp_path, wrong), *good)
    result.fails(
        2, "config.yaml:", " with --set quality.gopher.max_words=9000: quality.gopher.min_words: ", "got 'many'"
    )
    assert "run.attempts" not in result.err
    mended = call("plan", config(tmp_path, wrong), *good, "--set", "quality.gopher.min_words=30")
    assert mended.status == 0, mended.err
    twice = ["--set", "quality.gopher.min_words=abc", "--set", "quality.gopher.min_words=def"]
    call("run", config(tmp_path, CONFIG), *twice).fails(2, "error: --set quality.gopher.min_words=def: ", "got 'def'")
    table = call("run", config(tmp_path, CONFIG), "--set", "run.retention={a: 1}", "--set", "run.retention.b=[0, 2]")
    table.fails(2, "error: --set run.retention={a: 1}: ")
    call("run", config(tmp_path, CONFIG), "--limit", 0).fails(2, "error: --set run.limit=0: run.limit")
    call("run", config(tmp_path, CONFIG), "--set", "seed=x").fails(
        2, "error: --set seed=x: seed must be a whole number"
    )


@pytest.mark.parametrize(
    "text", ["- a\n", "hello\n", "input: 5\n", "input: [3]\n", "input: [null]\n", "input: [{}]\n", "input: {a: {}}\n"]
)
@pytest.mark.parametrize("override", ["quality.gopher.min_words=3", "run.workers=2", "stages.².x=1"])
def test_overrides_of_what_is_no_config(call: Any, tmp_path: Path, text: str, override: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    call("plan", path, "--set", override).fails(2, "error: ")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--limit", "0"), ("--limit", "-1"), ("--sample", "0"), ("--workers", "0"), ("--workers", "-3")],
)
def test_nothing_is_not_everything(call: Any, tmp_path: Path, option: str, value: str) -> None:
    call("run", config(tmp_path, CONFIG), option, value).fails(2, f"run.{option[2:]}", "greater than", f"got {value}")
    assert not (tmp_path / "run").exists()


def test_how_to_go_on_is_what_was_typed(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Runner) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "run", interrupted)
    result = call("run", config(tmp_path, CONFIG), "--limit", 5, "--set", "name=a", "--executor", "inline", "--refresh")
    again = f"corpusflow run {tmp_path}/config.yaml --limit 5 --set name=a --executor inline --refresh"
    result.fails(130, f"Go on with: {again}\n")
    spaced = call("run", config(tmp_path, CONFIG), "--set", f"run.dir={tmp_path}/two words")
    spaced.fails(130, f"--set 'run.dir={tmp_path}/two words'\n")


# ---- the output ----


@pytest.mark.parametrize("command", ["run"])
def test_a_run_folder_that_cannot_be(call: Any, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("")
    call(command, config(tmp_path, CONFIG, dir=str(tmp_path / "file" / "run"))).fails(
        2, "cannot write", str(tmp_path / "file"), "run.dir"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_run_folder_without_permission(call: Any, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    call("run", config(tmp_path, CONFIG, dir=str(closed / "run"))).fails(2, "cannot write", "run.dir")


def test_a_read_only_place(call: Any, tmp_path: Path) -> None:
    if not os.path.isdir("/proc/self"):
        pytest.skip("needs /proc")
    result = call("run", config(tmp_path, CONFIG, dir="/proc/corpusflow"))
    result.fails(2, "cannot write", "run.dir")


def test_a_run_folder_at_home(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call("run", config(tmp_path, CONFIG, dir="~/run")).fails(
        2, "~/run: ~ is a word of the shell", "hint: give the path: /"
    )
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("scheme", ["s3", "file"])
def test_a_run_folder_that_is_a_url(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = config(tmp_path, CONFIG, dir=f"{scheme}://bucket/run")
    before = sorted(tmp_path.iterdir())
    call("run", path).fails(2, f"no storage for {scheme}:// (of {scheme}://bucket/run)", "hint: ")
    call("plan", path).fails(2, f"no storage for {scheme}://")
    call("status", f"{scheme}://bucket/run").fails(2, f"no storage for {scheme}://")
    assert sorted(tmp_path.iterdir()) == before  # no folder called `s3:`


def test_damaged_json(call: Any, own_run: Any) -> None:
    manifest = own_run.folder / "exports" / "bin" / "manifest.json"
    manifest.write_text("torn")
    call("trace", own_run, "--token", 0, "--export", "bin").fails(4, str(manifest), "is damaged", "corpusflow run")
    (own_run.folder / "plan.json").write_text("")
    call("status", own_run).fails(4, f"{own_run}/plan.json is damaged", "hint: `corpusflow run`")
    assert call("run", own_run.config, "--set", f"run.dir={own_run}", "--executor", "inline").status == 0
    assert call("status", own_run).status == 0


# ---- the data ----


def test_a_run_folder_below_the_input(call: Any, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.txt").write_text("Some words here.\n")
    text = f"input:\n  - ingest.text: {{paths: [{folder}]}}\nstages: [quality.signals]\noutput: [export.parquet]\n"
    path = config(tmp_path, text, dir=str(folder / "run"))
    assert call("run", path).status == 0
    assert call("run", path).status == 0
    (folder / "run" / "my notes").mkdir()
    (folder / "run" / "my notes" / "b.txt").write_text("A file of the user's own.\n")
    call("run", path, "--refresh").fails(2, "config.yaml:2", "which this run made itself", "move the run folder")


def test_parquet_without_the_column(call: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"], "body": ["Some words."]}), tmp_path / "a.parquet")
    text = f"input:\n  - ingest.parquet: {{paths: [{tmp_path}/a.parquet]}}\nstages: [quality.gopher]\n"
    result = call("run", config(tmp_path, text))
    assert "Traceback" not in result.err
    assert result.status != 0
    assert "text" in result.err
    assert "body" in result.err
    assert "hint" in result.err


def test_no_document_left(call: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        "This is a page that says nothing but that it is much too short to be kept by anyone.\n"
    )
    text = f"input:\n  - ingest.text: {{paths: [{tmp_path}/a.txt]}}\nstages:\n  - quality.gopher\noutput: [export.parquet]\n"
    result = call("run", config(tmp_path, text))
    result.fails(1, "no document is left for export.parquet", "ended at quality.gopher (most often: gopher_few_words)")
    assert f"corpusflow inspect {tmp_path}/run --stage quality.gopher" in result.err
    spaced = call("run", config(tmp_path, text, dir=str(tmp_path / "my run")))
    assert f"corpusflow inspect '{tmp_path}/my run' --stage quality.gopher" in spaced.err
    shown = call("inspect", tmp_path / "run", "--stage", "quality.gopher")
    assert "gopher_few_words: quality.words = 19, needs >= 50  <- fails" in shown.out
    assert "This is a page that says nothing" in shown.out
    assert "This is a page that says nothing" in call("explain", tmp_path / "run", "text/a.txt#0").out


def test_a_changed_input_file(call: Any, tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("Some words here.\n")
    path = config(tmp_path, f"input:\n  - ingest.text: {{paths: [{source}]}}\nstages: [quality.signals]\n")
    assert call("run", path).status == 0
    source.write_text("Some other words here.\n")
    call("run", path).fails(3, "changed since they were listed", str(source), "--refresh")
    assert call("run", path, "--refresh").status == 0


def test_an_archive_of_texts_and_pages(call: Any, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "Some words here.")
        archive.writestr("b.html", "<p>Some words on a page.</p>")
    source = f"input:\n  - ingest.archive: {{{{paths: [{tmp_path}/a.zip]{{more}}}}}}\n"
    sink = "output: [export.parquet]\n"
    extracted = config(tmp_path, source.format(more="") + "stages: [ingest.extract]\n" + sink)
    assert call("run", extracted).status == 0
    (file,) = (tmp_path / "run" / "exports" / "parquet").glob("*.parquet")
    assert pq.read_table(file).column("text").to_pylist() == ["Some words here.", "Some words on a page."]
    skipped = config(tmp_path, source.format(more=", pages: skip") + sink, dir=str(tmp_path / "skip"))
    assert call("run", skipped).status == 0
    (file,) = (tmp_path / "skip" / "exports" / "parquet").glob("*.parquet")
    assert pq.read_table(file).column("text").to_pylist() == ["Some words here."]
    assert "page" in call("status", tmp_path / "skip").out


# ---- run folders and options ----

NOT_A_RUN = [
    ["status"],
    ["inspect"],
    ["explain", "x"],
    ["what-if"],
    ["quarantine", "list"],
    ["export", "--stage", "a", "--to", "b"],
    ["verify"],
    ["gc"],
]


@pytest.mark.parametrize("command", NOT_A_RUN, ids=lambda c: c[0])
def test_not_a_run_folder(call: Any, tmp_path: Path, command: list[str]) -> None:
    at = 2 if command[0] == "quarantine" else 1
    call(*command[:at], tmp_path / "nowhere", *command[at:]).fails(2, "not a run folder", "corpusflow run")


@pytest.mark.parametrize(
    "arguments", [["inspect", "--stage"], ["export", "--to", "x", "--stage"], ["quarantine", "list", "--stage"]]
)
def test_a_stage_the_run_does_not_have(call: Any, small_run: Any, arguments: list[str]) -> None:
    at = 2 if arguments[0] == "quarantine" else 1
    call(*arguments[:at], small_run, *arguments[at:], "quality.gofer").fails(
        2, "no stage 'quality.gofer'", "did you mean quality.gopher?"
    )


def test_unknown_commands_and_options(call: Any) -> None:
    call("pln").fails(2, "No such command 'pln'", "Did you mean plan?")
    call("plan", "x", "--worker", "2").fails(2, "No such option")
    call("stages", "quality.gofer").fails(2, "unknown stage", "did you mean quality.gopher")
    call("export", "x").fails(2, "--stage")


# ---- as a shell sees it ----


def test_exit_status_and_streams(tmp_path: Path) -> None:
    wrong = program("run", "configs/wed.yaml")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("error: config configs/wed.yaml does not exist\nhint: ")
    good = program("version", "--json")
    assert good.returncode == 0
    assert json.loads(good.stdout)["corpusflow"]


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    script = (
        "import sys, time; t = time.perf_counter()\n"
        "from corpusflow.cli import main\n"
        "sys.argv = ['corpusflow', '--help']\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "heavy = {'ray', 'pyarrow', 'numba', 'numpy', 'pydantic', 'yaml', 'stages'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stderr.strip() == "[]"
    assert all(name in result.stdout for name in COMMANDS)
    best = 10.0
    for _ in range(5):
        start = time.perf_counter()
        assert program("--help").returncode == 0
        best = min(best, time.perf_counter() - start)
    assert best < 0.5


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(call: Any, name: str) -> None:
    result = call(name, "--help")
    assert result.status == 0
    assert "Usage:" in result.out
    assert len(COMMANDS[name]) < 72


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
@pytest.mark.parametrize("arguments", [["status"], ["inspect"], ["plan"]])
def test_no_thread_is_left_that_aborts_the_end(small_run: Any, arguments: list[str]) -> None:
    """Arrow's threads, when they had just been started, ended one process in a hundred with status 134."""
    script = (
        "import os, sys, pyarrow.parquet, pyarrow.dataset\n"
        "threads = lambda: len(os.listdir('/proc/self/task'))\n"
        "from corpusflow.cli import main\n"
        "before = threads()\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "print('threads', before, threads(), file=sys.stderr)\n"
    )
    what = small_run.config if arguments[0] == "plan" else small_run
    call = [sys.executable, "-c", script, arguments[0], str(what), *arguments[1:]]
    if arguments[0] == "plan":
        call += ["--set", f"run.dir={small_run}"]
    said = subprocess.run(call, capture_output=True, text=True, cwd=ROOT, check=True).stderr.splitlines()[-1]
    _, before, after = said.split()
    assert before == after


@pytest.mark.parametrize("encoding", ["latin-1", "gbk"])
def test_a_terminal_that_is_not_utf_8(small_run: Any, encoding: str) -> None:
    def said(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        call = [sys.executable, "-m", "corpusflow", arguments[0], str(small_run), *arguments[1:]]
        return subprocess.run(call, capture_output=True, cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": encoding})

    for arguments in (["what-if", "--set", "quality.gopher.min_words=80"], ["inspect", "--stage", "language.identify"]):
        result = said(*arguments)
        assert result.returncode == 0, result.stderr
        assert result.stdout.decode(encoding)
    exact = json.loads(program("inspect", str(small_run), "--stage", "language.identify", "--json").stdout)
    assert json.loads(said("inspect", "--stage", "language.identify", "--json").stdout.decode(encoding)) == exact


def test_a_closed_pipe_is_no_error(small_run: Any) -> None:
    command = f"{sys.executable} -m corpusflow inspect {small_run} --stage ingest.warc --samples 50 | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert result.stdout.startswith("ingest.warc")
    assert result.stderr == ""
