"""Lack of memory is what the kernel has counted, and nothing else that kills."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from phasewise.records.verdict import Failure, Reason
from phasewise.workers import oom
from phasewise.workers import process as process_module
from phasewise.workers.failure import describe_exit
from phasewise.workers.isolated import run_isolated
from phasewise.workers.oom import count_free_bytes, count_oom_kills

KILLED = "import os, signal\ndef run(payload):\n    os.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.fixture
def kernel(tmp_path: Path) -> tuple[Path, Path]:
    """/proc and /sys/fs/cgroup of a process in the group `jobs/one`."""
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("4:memory:/old\n0::/jobs/one\n")
    (proc / "vmstat").write_text("nr_free_pages 12\noom_kill 7\nswap_ra 0\n")
    (cgroups / "jobs" / "one").mkdir(parents=True)
    return proc, cgroups


def test_the_own_control_group_is_asked_first(kernel: tuple[Path, Path]) -> None:
    proc, cgroups = kernel
    assert count_oom_kills(proc, cgroups) == 7
    (cgroups / "jobs/one/memory.events").write_text("low 0\nhigh 0\nmax 31\noom 4\noom_kill 3\noom_group_kill 0\n")
    assert count_oom_kills(proc, cgroups) == 3
    # a container sees its own group as the root
    (proc / "self" / "cgroup").write_text("0::/\n")
    (cgroups / "memory.events").write_text("oom_kill 2\n")
    assert count_oom_kills(proc, cgroups) == 2


def test_a_kernel_that_does_not_tell_has_counted_none(tmp_path: Path) -> None:
    assert count_oom_kills(tmp_path, tmp_path) == 0
    (tmp_path / "vmstat").write_text("nr_free_pages 12\n")
    assert count_oom_kills(tmp_path, tmp_path) == 0


def test_the_limit_of_the_own_control_group_counts_but_for_pages_of_files(kernel: tuple[Path, Path]) -> None:
    proc, cgroups = kernel
    whole, own = count_free_bytes(proc, cgroups), cgroups / "jobs/one"
    (own / "memory.current").write_text("700000\n")
    (own / "memory.max").write_text("max\n")
    assert count_free_bytes(proc, cgroups) == pytest.approx(whole, rel=0.5)
    (own / "memory.max").write_text("1000000\n")
    assert count_free_bytes(proc, cgroups) == 300_000
    (own / "memory.stat").write_text("anon 600000\ninactive_file 100000\n")
    assert count_free_bytes(proc, cgroups) == 400_000
    (own / "memory.current").write_text("2000000\n")
    assert count_free_bytes(proc, cgroups) == 0


def test_this_kernel_can_be_asked() -> None:
    assert count_oom_kills() >= 0 and oom.PROC.is_dir()


def test_a_kill_is_lack_of_memory_only_where_the_kernel_counted_one() -> None:
    assert describe_exit(-signal.SIGKILL, "").reason is Reason.KILLED
    assert describe_exit(-signal.SIGKILL, "", memory_ran_out=True).reason is Reason.OUT_OF_MEMORY
    # another process may have been the one
    assert describe_exit(3, "", memory_ran_out=True).reason is Reason.CRASH


def test_a_worker_that_is_killed_while_the_kernel_counts_one_ran_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    counts = iter((4, 5, 5, 5))
    monkeypatch.setattr(process_module, "count_oom_kills", lambda: next(counts))
    failure = run_isolated(f"{tmp_path}/killed.py:run", None, folder=tmp_path)
    assert isinstance(failure, Failure) and failure.reason is Reason.OUT_OF_MEMORY
