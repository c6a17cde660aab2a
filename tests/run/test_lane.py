"""Which processes share our GPU and rest while we time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phasewise.measure.neighbours import Watch
from phasewise.run.lane import CUDA_FILE, find_at_rest
from phasewise.run.sensors import Gpu

LANES = {"PHASEWISE_GPUS": "0,1", "PHASEWISE_LANES": "3"}


def put(folder: Path, pid: int, environment: dict[str, str], *files: str) -> None:
    (folder / str(pid) / "fd").mkdir(parents=True)
    told = "\0".join(f"{name}={value}" for name, value in environment.items())
    (folder / str(pid) / "environ").write_text(told + "\0")
    for number, file in enumerate(files):
        (folder / str(pid) / "fd" / str(number)).symlink_to(file)


def test_jobs_of_this_run_that_have_our_gpu_open_are_at_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**LANES, "CUDA_VISIBLE_DEVICES": "1"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "self").mkdir()
    put(tmp_path, 1, {**LANES, "CUDA_VISIBLE_DEVICES": "1"}, "/dev/null", CUDA_FILE)
    # of several ranks
    put(tmp_path, 2, {**LANES, "CUDA_VISIBLE_DEVICES": "0,1"}, CUDA_FILE)
    # on another GPU; it only asks for its temperature; of another run; gone
    put(tmp_path, 3, {**LANES, "CUDA_VISIBLE_DEVICES": "0"}, CUDA_FILE)
    put(tmp_path, 4, {**LANES, "CUDA_VISIBLE_DEVICES": "1"}, "/dev/nvidiactl", "/dev/nvidia1")
    put(tmp_path, 5, {"CUDA_VISIBLE_DEVICES": "1"}, CUDA_FILE)
    (tmp_path / "6").mkdir()
    assert find_at_rest(tmp_path) == {1, 2}


class Seen(Gpu):
    def __init__(self, *pids: int) -> None:
        self.__dict__["pids"] = pids

    def processes(self) -> tuple[int, ...]:
        found: tuple[int, ...] = self.__dict__["pids"]
        return found


@pytest.mark.parametrize(("seen", "others"), [((1, 2, 7), 0), ((1, 2, 7, 8), 1), ((101, 102, 103, 104), 1)])
def test_what_is_at_rest_is_no_neighbour(seen: tuple[int, ...], others: int) -> None:
    watch = Watch(gpu=Seen(*seen), now=lambda: 0.0, at_rest=lambda: frozenset({1, 2}))
    # one is in both
    assert watch.look([7, 2]).processes == others


def test_a_real_process_is_read_without_complaint() -> None:
    assert os.getpid() not in find_at_rest()
