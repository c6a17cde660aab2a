"""What all tests share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from phasewise.bench.no_gc import no_gc
from phasewise.environment import name_gpus
from phasewise.workers.forkserver import SERVER, start_fork_server

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests"))
pytest_plugins = ["leave_out"]
# tools of this environment are found without activating it
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))


@pytest.fixture(scope="session", autouse=True)
def forks() -> Iterator[None]:
    """One fork server for the workers of all tests of this process, also for those of the graphs that they run.

    None beside a GPU, as in a run.
    """
    if name_gpus():
        yield
        return
    held = start_fork_server()
    yield
    os.close(held)
    del os.environ[SERVER]


@pytest.fixture
def repository() -> Path:
    """The top folder of this repository."""
    return ROOT


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported here stays: a look for garbage in it costs seconds, now and with every later look."""
    with no_gc():
        found = yield
    gc.freeze()
    return found


# a module whose tests share graphs of many workloads, and one whose every test runs a graph of its own: a minute or so each
LONGEST = "tests/graph/test_contract.py"
ONE_BY_ONE = "tests/graph/test_kill.py"
SLOW_FIRST = (LONGEST, ONE_BY_ONE, "tests/graph/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that no process is left with one at the end."""
    items.sort(key=lambda item: [not item.nodeid.startswith(place) for place in SLOW_FIRST])
    _skip_gpu_tests([item for item in items if "gpu" in item.keywords])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Slow tests one by one, any other module as a whole: its fixtures are made once."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if nodeid.startswith(ONE_BY_ONE) else nodeid.partition("::")[0]

    return Scheduling(config, log)


def _skip_gpu_tests(items: list[pytest.Item]) -> None:
    if not items:
        return
    import torch

    if not torch.cuda.is_available():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU; run `make gpu-test` on a GPU box"))
