"""The fork server: what is forked from it answers, dies and is surrounded as a fresh worker is."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from phasewise.records.verdict import Failure, Reason
from phasewise.workers.arm import ArmProcesses, launch_case, launch_function
from phasewise.workers.forked import Forked
from phasewise.workers.forkserver import PREFIX, SERVER, TOOLED, start_fork_server, sweep
from phasewise.workers.isolated import run_isolated
from phasewise.workers.process import Process
from programs import plan_program, write_program

HELPERS = """
import faulthandler, os, random, sys, time

def tell(payload):
    import numpy, torch
    drawn = [torch.initial_seed(), int(numpy.random.randint(1 << 62)), random.random()]
    return {
        "folder": os.getcwd(), "here": os.environ.get("HERE"), "server": os.environ.get("PHASEWISE_FORK_SERVER"),
        "parent": os.getppid(), "group": os.getpgid(0) == os.getpid(), "cores": sorted(os.sched_getaffinity(0)),
        "first": sys.path[0], "open": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
        "faulthandler": faulthandler.is_enabled(), "drawn": drawn, "cache": os.environ.get("TRITON_CACHE_DIR"),
        "compilers": [name for name in ("triton", "torch._inductor", "jax") if name in sys.modules], "pandas": "pandas" in sys.modules,
    }

def leave(payload):
    print("last words", file=sys.stderr, flush=True)
    sys.exit(payload)

def promise(path):
    import atexit, threading
    def add(words):
        with open(path, "a") as file:
            file.write(words)
    def fail():
        raise ValueError("too late")
    atexit.register(add, "at exit")
    atexit.register(fail)
    threading.Thread(target=lambda: (time.sleep(0.2), add("thread, "))).start()

def abort(payload):
    os.abort()

def sleep(payload):
    time.sleep(600)
"""


@contextmanager
def serve(sets: int = 0) -> Iterator[psutil.Process]:
    """A server, and those of so many sets, named in the environment until they have ended."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SERVER, "")
        before = set(psutil.Process().children())
        held = start_fork_server(sets)
        started, *others = sorted(set(psutil.Process().children()) - before, key=lambda child: child.pid)
        assert len(others) == sets
        folder = Path(os.environ[SERVER]).parent
        try:
            yield started
        finally:
            os.close(held)
            for one in (started, *others):
                one.wait(10)
    assert not folder.exists()


@pytest.fixture(scope="module")
def server() -> Iterator[psutil.Process]:
    with serve() as started:
        yield started


@pytest.fixture
def helpers(tmp_path: Path) -> str:
    """The file of the functions above, as a target begins."""
    (tmp_path / "helpers.py").write_text(HELPERS)
    return f"{tmp_path}/helpers.py"


def test_a_forked_worker_is_surrounded_as_a_fresh_one(server, helpers, tmp_path, monkeypatch):
    monkeypatch.setenv("HERE", "now")
    forked, fresh = (
        run_isolated(f"{helpers}:tell", None, folder=tmp_path, environment=own) for own in ({}, {"HERE": "own"})
    )
    assert forked["parent"] == server.pid and fresh["parent"] == os.getpid()
    assert forked["here"] == "now" and fresh["here"] == "own"
    same = ("folder", "group", "cores", "first", "faulthandler", "server")
    assert {name: forked[name] for name in same} == {name: fresh[name] for name in same}
    again = run_isolated(f"{helpers}:tell", None, folder=tmp_path)
    assert all(one != other for one, other in zip(forked["drawn"], again["drawn"], strict=True))
    # three standard files, two pipes, and the folder that is being listed
    assert len(forked["open"]) == len(fresh["open"]) == 6


@pytest.mark.parametrize("own", [{}, {"HERE": "own"}], ids=["forked", "fresh"])
def test_a_worker_waits_for_its_threads_and_runs_what_is_to_be_run_at_its_end(server, helpers, tmp_path, own):
    run_isolated(f"{helpers}:promise", str(tmp_path / "said"), folder=tmp_path, environment=own)
    assert (tmp_path / "said").read_text() == "thread, at exit"


def test_what_is_read_late_is_in_the_environment_of_a_forked_worker(server, helpers, tmp_path):
    told = run_isolated(f"{helpers}:tell", None, folder=tmp_path, environment={"TRITON_CACHE_DIR": "here"})
    assert told["parent"] == server.pid and told["cache"] == "here"
    # and nothing that reads it has been imported by the server
    assert told["compilers"] == []


def test_a_tooled_worker_has_a_server_of_its_own_and_none_with_an_environment(server, helpers, tmp_path):
    tooled = run_isolated(f"{helpers}:tell", None, folder=tmp_path, tooled=True)
    (twin,) = server.children()
    assert tooled["parent"] == twin.pid and "torch._inductor" in tooled["compilers"] and tooled["pandas"]
    # what the compiler reads when it is imported
    late = run_isolated(f"{helpers}:tell", None, folder=tmp_path, tooled=True, environment={"TRITON_CACHE_DIR": "here"})
    assert late["parent"] == server.pid and late["compilers"] == [] and not late["pandas"]
    foreign = run_isolated(f"{helpers}:tell", None, folder=tmp_path, tooled=True, environment={"XLA_FLAGS": ""})
    assert foreign["parent"] == twin.pid


def test_what_compiles_has_a_server_of_its_set_and_none_where_its_build_goes_on_record(helpers, tmp_path):
    with serve(sets=1) as plain:
        launch = replace(launch_function("time:time"), tooled=True, process_set=0)
        recorded = replace(launch, environment={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)})
        arms = [ArmProcesses(one) for one in (launch, recorded, replace(launch, tooled=False))]
        tooled, *others = (psutil.Process(*arm.pids).ppid() for arm in arms)
        (first,) = set(others)
        assert psutil.Process(tooled).ppid() == first != plain.pid
        for arm in arms:
            arm.close()


def test_both_servers_end_when_the_one_that_started_them_does(helpers, tmp_path):
    with serve() as server:
        process = Process(environment={}, folder=tmp_path, server=TOOLED)
        (twin,) = server.children()
        assert psutil.Process(process.pid).ppid() == twin.pid
    wait_until_gone(twin.pid)
    wait_until_gone(process.pid)
    process.close()


def test_a_forked_worker_times_a_program(server, tmp_path):
    write_program(tmp_path)
    session = ArmProcesses(launch_case(plan_program(), "only", tmp_path))
    assert session.open()["items"] == 8
    assert session.block(7, settle=1)["steps"] == 7
    (pid,) = session.pids
    assert psutil.Process(pid).ppid() == server.pid
    session.close()
    assert not is_alive(pid)


def test_processes_that_are_to_show_how_processes_differ_have_a_server_for_each_set_or_are_fresh(tmp_path):
    write_program(tmp_path)
    launch = launch_case(plan_program(sets=3), "only", tmp_path)
    with serve(sets=2) as server:
        drivers = [ArmProcesses(replace(launch, process_set=number)) for number in (0, 0, 1, 2, None)]
        processes = [psutil.Process(driver.pids[0]) for driver in drivers]
        for driver in drivers:
            driver.wait()
        first, same, second, beyond, unnumbered = (process.ppid() for process in processes)
        assert first == same != second and server.pid not in (first, second)
        # there is no server for a third set
        assert beyond == unnumbered == os.getpid()
        # where the compiled part of torch lies
        bases = [
            min(
                int(part.addr.split("-")[0], 16)
                for part in process.memory_maps(grouped=False)
                if "libtorch_cpu" in part.path
            )
            for process in processes
        ]
        assert bases[0] == bases[1] and len({bases[0], *bases[2:]}) == 4
        for driver in drivers:
            driver.close()


def test_deaths_are_told_apart(server, helpers, tmp_path):
    def fail(function: str, payload: object = None, timeout_s: float = 60.0) -> Failure:
        found = run_isolated(f"{helpers}:{function}", payload, folder=tmp_path, timeout_s=timeout_s)
        assert isinstance(found, Failure)
        return found

    assert fail("leave", 3).message == "exit status 3: last words"
    aborted = fail("abort")
    assert aborted.reason is Reason.CRASH and aborted.message.startswith("killed by SIGABRT in abort (helpers.py:")
    assert fail("sleep", timeout_s=0.5).reason is Reason.TIMEOUT


def test_a_worker_ends_with_the_process_that_asked_for_it(server, helpers, tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom phasewise.workers.process import Process\n"
        "process = Process(environment={}, folder=Path.cwd())\n"
        f"process.send('call', function='{helpers}:sleep', payload=None, memory_bytes=None)\n"
        "print(process.pid, flush=True)\nsys.stdin.read()\n"
    )
    client = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path)
    assert client.stdout is not None
    pid = int(client.stdout.readline())
    assert psutil.Process(pid).ppid() == server.pid
    client.kill()
    client.communicate()
    wait_until_gone(pid)


def test_workers_end_with_the_server(helpers, tmp_path):
    with serve() as server:
        process = Process(environment={}, folder=tmp_path)
        process.send("call", function=f"{helpers}:sleep", payload=None, memory_bytes=None)
        os.kill(server.pid, signal.SIGKILL)
        failure = process.describe_death(10.0)
        assert failure is not None and failure.reason is Reason.KILLED
        wait_until_gone(process.pid)
        process.close()
        # a server that is killed cleans up nothing
        shutil.rmtree(Path(os.environ[SERVER]).parent)


def test_without_a_server_a_worker_is_fresh(helpers, tmp_path, monkeypatch):
    monkeypatch.setenv(SERVER, str(tmp_path / "nobody"))
    assert run_isolated(f"{helpers}:tell", None, folder=tmp_path)["parent"] == os.getpid()
    monkeypatch.delenv(SERVER)
    assert run_isolated(f"{helpers}:tell", None, folder=tmp_path)["parent"] == os.getpid()


def test_two_clients_at_once_have_a_worker_each(server, helpers, tmp_path):
    both = [Process(environment={}, folder=tmp_path) for _ in range(2)]
    assert len({process.pid for process in both}) == 2
    both[0].kill()
    both[1].send("call", function=f"{helpers}:tell", payload=None, memory_bytes=None)
    assert both[1].channel.receive(60.0)["answer"]["parent"] == server.pid
    both[1].close()


def test_a_wait_that_is_too_short_says_so(server, tmp_path):
    process = Process(environment={}, folder=tmp_path)
    assert isinstance(process._process, Forked)
    with pytest.raises(subprocess.TimeoutExpired):
        process._process.wait(0.05)
    process.close()


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_killed_servers_left_is_swept_and_what_is_heard_stays(tmp_path):
    dead, alive, other = (tmp_path / f"{PREFIX}{name}" for name in ("dead", "alive", "other"))
    for folder in (dead, alive, other):
        folder.mkdir()
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as bound,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening,
    ):
        bound.bind(str(dead / "forkserver"))
        listening.bind(str(alive / "forkserver"))
        listening.listen()
        sweep(tmp_path)
        assert dead.exists(), "it may be about to listen"
        for folder in (dead, alive, other):
            os.utime(folder, (0, 0))
        sweep(tmp_path)
    assert not dead.exists() and alive.exists() and other.exists()


def test_a_long_temporary_folder_is_no_address(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setenv(SERVER, "")
    held = start_fork_server()
    try:
        path = Path(os.environ[SERVER])
        assert path.exists() and len(str(path)) < 100
    finally:
        os.close(held)
    until = time.monotonic() + 30
    while path.parent.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not path.parent.exists()
