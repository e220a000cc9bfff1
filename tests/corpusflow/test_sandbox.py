"""The sandbox: order, neighbours of bad items, deadlines, crashes, memory, recycling, the parent's death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpusflow import RetryableError, Sandbox, StageError

WORKER = """
import ctypes, os, signal, sys, time

def make(greeting=""):
    count = 0
    def work(header, body):
        nonlocal count
        count += 1
        do = header.get("do")
        if do == "sleep":
            time.sleep(header["seconds"])
        elif do == "loop":
            while True:
                pass
        elif do == "exit":
            os._exit(3)
        elif do == "segv":
            ctypes.string_at(0)
        elif do == "abort":
            os.abort()
        elif do == "sys.exit":
            sys.exit(1)
        elif do == "raise":
            raise ValueError("no such page")
        elif do == "memory":
            b"x" * (8 << 30)
        elif do == "leak":
            header["kept"] = work.kept = getattr(work, "kept", []) + [b"y" * (40 << 20)]
            header.pop("kept")
        elif do == "once":
            if not os.path.exists(header["marker"]):
                open(header["marker"], "w").close()
                os._exit(1)
        elif do == "print":
            print("noise on stdout", flush=True)
            os.write(1, b"more noise")
        elif do == "big":
            return {}, [b"z" * header["bytes"]]
        elif do == "garbage":
            os.write(header["fd"], b"\\xff" * 64)
        return {"n": header.get("n"), "greeting": greeting, "pid": os.getpid(), "count": count}, [body[::-1], b""]
    return work

def broken():
    raise RuntimeError("no model here")

def killed_once(marker):
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return make()
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "sandbox_worker_for_tests.py").write_text(WORKER)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "sandbox_worker_for_tests:make"


@pytest.fixture
def sandbox(worker: str) -> Iterator[Sandbox]:
    with Sandbox(worker, {"greeting": "hi"}, deadline_seconds=0.4, memory_bytes=512 << 20) as box:
        yield box


def answers(box: Sandbox, items: list[tuple[dict, bytes]]) -> list[tuple]:
    return [(r.failure, r.header.get("n"), tuple(r.parts)) for r in box.run(items)]


def test_answers_come_in_order_and_whole(sandbox: Sandbox) -> None:
    items = [({"n": i}, os.urandom(i * 37 % 9_000)) for i in range(2_000)]
    items[500] = ({"n": 500}, os.urandom(9 << 20))  # larger than pipe and window together
    got = sandbox.run(items)
    assert [r.header["n"] for r in got] == list(range(2_000))
    assert all(r.parts == [body[::-1], b""] for r, (_, body) in zip(got, items, strict=True))
    assert {r.header["greeting"] for r in got} == {"hi"}
    assert len({r.header["pid"] for r in got}) == 1


def test_headers_may_hold_what_json_can(sandbox: Sandbox) -> None:
    values = ["plain", "a\ud800b", "\u2028", 1 << 80, -1.5, None, True, {"k": ["\udfff"]}]
    assert [r.header["n"] for r in sandbox.run([({"n": v}, b"") for v in values])] == values


def test_no_items(sandbox: Sandbox) -> None:
    assert sandbox.run([]) == []


@pytest.mark.parametrize(
    ("bad", "failure", "detail"),
    [
        ({"do": "exit"}, "crash", "exit 3"),
        ({"do": "segv"}, "crash", "SIGSEGV"),
        ({"do": "abort"}, "crash", "SIGABRT"),
        ({"do": "sys.exit"}, "crash", "exit 1"),
        ({"do": "raise"}, "error", "ValueError: no such page"),
        ({"do": "memory"}, "memory", "MemoryError"),
        ({"do": "loop"}, "deadline", "no answer within 2.4 s"),
    ],
)
def test_a_bad_item_costs_itself_alone(sandbox: Sandbox, bad: dict, failure: str, detail: str) -> None:
    good = [({"n": i}, b"body %d" % i) for i in range(300)]
    expected = answers(sandbox, good)
    items = [*good[:100], (bad, b"bad"), *good[100:]]
    got = sandbox.run(items)
    assert got[100].failure == failure
    assert detail in got[100].detail
    assert got[100].nondeterministic == (failure == "deadline")
    assert [(r.failure, r.header.get("n"), tuple(r.parts)) for r in got[:100] + got[101:]] == expected


def test_bad_items_side_by_side_and_at_the_ends(sandbox: Sandbox) -> None:
    kinds = ["exit", "exit", None, "raise", "segv", None, "exit"]
    got = sandbox.run([({"n": i, "do": k} if k else {"n": i}, b"x") for i, k in enumerate(kinds)])
    assert [r.failure for r in got] == ["crash", "crash", None, "error", "crash", None, "crash"]
    assert sandbox.run([({"n": 9}, b"")])[0].header["n"] == 9


def test_slow_but_within_six_deadlines_is_an_answer(sandbox: Sandbox) -> None:
    got = sandbox.run([({"n": 0}, b""), ({"n": 1, "do": "sleep", "seconds": 0.9}, b""), ({"n": 2}, b"")])
    assert [(r.failure, r.header["n"]) for r in got] == [(None, 0), (None, 1), (None, 2)]


def test_deadline_is_per_item_not_per_batch(sandbox: Sandbox) -> None:
    got = sandbox.run([({"n": i, "do": "sleep", "seconds": 0.2}, b"") for i in range(6)])
    assert len({r.header["pid"] for r in got}) == 1  # 1.2 s in all, and nothing was killed


def test_a_caller_that_dawdles_is_no_deadline(sandbox: Sandbox) -> None:
    seen = []
    for result in sandbox.map([({"n": i}, b"") for i in range(3)]):
        seen.append((result.header["n"], result.header["pid"]))
        time.sleep(0.6)
    assert [n for n, _ in seen] == [0, 1, 2]
    assert len({pid for _, pid in seen}) == 1


def test_memory_of_neighbours_is_not_held_against_an_item(sandbox: Sandbox) -> None:
    # Each keeps 40 MB for ever: about the tenth finds the address space full, through no fault of its own.
    got = sandbox.run([({"n": i, "do": "leak"}, b"") for i in range(25)])
    assert [(r.failure, r.header.get("n")) for r in got] == [(None, i) for i in range(25)]


def test_a_crash_that_does_not_repeat_is_forgiven(sandbox: Sandbox, tmp_path: Path) -> None:
    got = sandbox.run([({"n": 0}, b""), ({"n": 1, "do": "once", "marker": str(tmp_path / "m")}, b""), ({"n": 2}, b"")])
    assert [(r.failure, r.header["n"]) for r in got] == [(None, 0), (None, 1), (None, 2)]


def test_what_the_worker_prints_does_not_disturb(sandbox: Sandbox) -> None:
    got = sandbox.run([({"n": i, "do": "print"}, b"ab") for i in range(50)])
    assert [r.parts[0] for r in got] == [b"ba"] * 50


def test_an_answer_over_the_limit_is_a_crash(worker: str) -> None:
    with Sandbox(worker, output_bytes=1 << 20) as box:
        got = box.run([({"do": "big", "bytes": 1 << 21}, b""), ({"do": "big", "bytes": 100}, b"")])
    assert [r.failure for r in got] == ["crash", None]
    assert "1048576 are allowed" in got[0].detail


def test_recycled_after_so_many_items(worker: str) -> None:
    with Sandbox(worker, recycle_items=10) as box:
        got = box.run([({"n": i}, b"") for i in range(35)])
    assert [r.header["n"] for r in got] == list(range(35))
    assert max(r.header["count"] for r in got) == 10
    assert len({r.header["pid"] for r in got}) == 4


def test_recycled_when_it_has_grown(worker: str) -> None:
    with Sandbox(worker, recycle_bytes=150 << 20) as box:
        first = box.run([({"n": i, "do": "leak"}, b"") for i in range(6)])[0].header["pid"]
        assert box.run([({"n": 7}, b"")])[0].header["pid"] != first


def test_caller_that_stops_early_leaves_no_answers_behind(sandbox: Sandbox) -> None:
    for result in sandbox.map([({"n": i}, b"") for i in range(100)]):
        if result.header["n"] == 3:
            break
    assert [r.header["n"] for r in sandbox.run([({"n": 1000}, b""), ({"n": 1001}, b"")])] == [1000, 1001]


def test_a_child_that_died_while_idle_is_replaced(sandbox: Sandbox) -> None:
    pid = sandbox.run([({"n": 0}, b"")])[0].header["pid"]
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)
    again = sandbox.run([({"n": 1}, b"")])[0]
    assert again.failure is None
    assert again.header["pid"] != pid


def test_worker_that_cannot_start_is_an_error_not_a_failed_item(worker: str) -> None:
    with pytest.raises(StageError, match="no model here"):
        Sandbox("sandbox_worker_for_tests:broken").run([({}, b"")])
    with pytest.raises(StageError, match="No module named 'nowhere_at_all'"):
        Sandbox("nowhere_at_all:make").run([({}, b"")])


def test_killed_while_it_starts_is_worth_another_try(worker: str, tmp_path: Path) -> None:
    with Sandbox("sandbox_worker_for_tests:killed_once", {"marker": str(tmp_path / "marker")}) as box:
        with pytest.raises(RetryableError, match=r"did not start: .* SIGKILL"):
            box.run([({"n": 1}, b"")])
        assert box.run([({"n": 1}, b"")])[0].header["n"] == 1


def test_child_imports_nothing_heavy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sandbox_modules_for_tests.py").write_text(
        "import sys\ndef make():\n    return lambda header, body: ({'modules': sorted(sys.modules)}, [])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with Sandbox("sandbox_modules_for_tests:make") as box:
        modules = set(box.run([({}, b"")])[0].header["modules"])
    assert not {"numpy", "pyarrow", "numba", "ray", "pydantic"} & modules


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("busy", [False, True])
def test_child_dies_with_a_killed_parent(worker: str, tmp_path: Path, busy: bool) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from corpusflow import Sandbox\n"
        f"box = Sandbox({worker!r})\n"
        "print(box.run([({}, b'')])[0].header['pid'], flush=True)\n"
        + ("box.run([({'do': 'loop'}, b'')])" if busy else "import time; time.sleep(60)")
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.stdout.close()
    time.sleep(0.2)
    assert _alive(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    end = time.monotonic() + 5
    while _alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not _alive(pid)


def test_close_leaves_no_process(worker: str) -> None:
    box = Sandbox(worker)
    pid = box.run([({}, b"")])[0].header["pid"]
    box.close()
    assert not os.path.exists(f"/proc/{pid}")


def test_a_large_parent_makes_no_child_look_full(worker: str) -> None:
    """Linux hands the parent's peak down to children: each then served one item, a run on 16,000 pages took forever."""
    ballast = b"\1" * (200 << 20)
    with Sandbox(worker, recycle_bytes=100 << 20) as box:
        results = box.run([({"n": n}, b"x") for n in range(20)])
    del ballast
    assert [r.header["count"] for r in results] == list(range(1, 21))
