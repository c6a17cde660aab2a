from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from phasewise.export.worker import Refused, Worker
from phasewise.records.export import ExportStatus

PROGRAM = """
import os, signal, subprocess, sys
from phasewise.export.serve import serve
from phasewise.model.workload import Unsupported

def refuse():
    raise Unsupported("no kernel")

def crash():
    raise KeyError("first line\\nsecond line")

def noisy():
    print("a library says hello")
    subprocess.run(["echo", "and a child"])
    return {"value": 1}

def leave():
    raise SystemExit("the hash differs")

HANDLERS = {
    "refuse": refuse, "crash": crash, "noisy": noisy, "leave": leave, "skip": lambda: {"skipped": "needs g++"},
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL), "hang": lambda: signal.pause(),
    "echo": lambda value: {"value": value, "seen": os.environ["SEEN"]},
}

def main(read_fd, write_fd):
    serve(HANDLERS, read_fd, write_fd)

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pw_worker_program.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def worker(root: Path) -> Iterator[Worker]:
    with start(root) as opened:
        yield opened


def start(root: Path, timeout_s: float = 60.0) -> Worker:
    return Worker("pw_worker_program", environment={"SEEN": "yes"}, root=root, timeout_s=timeout_s)


def test_a_worker_answers_in_its_own_environment_whatever_libraries_print(worker: Worker) -> None:
    assert worker.ask("noisy") == {"value": 1}
    assert worker.ask("echo", value=[1, "two"]) == {"value": [1, "two"], "seen": "yes"}


@pytest.mark.parametrize(
    ("do", "status", "message"),
    [
        ("refuse", ExportStatus.UNSUPPORTED, "no kernel"),
        ("skip", ExportStatus.SKIPPED, "needs g++"),
        ("leave", ExportStatus.FAILED, "the hash differs"),
    ],
)
def test_a_refusal_is_told_with_its_status_and_the_worker_goes_on(
    worker: Worker, do: str, status: ExportStatus, message: str
) -> None:
    with pytest.raises(Refused) as caught:
        worker.ask(do)
    assert (caught.value.status, caught.value.message) == (status, message)
    assert worker.ask("echo", value=1)["value"] == 1


def test_a_crash_is_told_in_one_line(worker: Worker) -> None:
    with pytest.raises(Refused) as caught:
        worker.ask("crash")
    assert caught.value.status is ExportStatus.FAILED
    assert caught.value.message.startswith("KeyError: ") and "\n" not in caught.value.message
    assert not worker.is_alive


def test_a_killed_worker_and_one_that_says_nothing_fail_with_the_reason(worker: Worker, root: Path) -> None:
    with pytest.raises(Refused, match="killed by SIGKILL"):
        worker.ask("kill")
    assert not worker.is_alive
    with start(root, timeout_s=0.5) as silent:
        with pytest.raises(Refused, match=r"hang was not done after 0\.5 s"):
            silent.ask("hang")
        assert not silent.is_alive
