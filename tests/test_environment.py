"""Which GPUs count: entries of CUDA_VISIBLE_DEVICES against a driver that is made up here."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import msgspec
import pytest

from phasewise.environment import name_device, name_gpus, read_pool, visible_entries
from phasewise.records.errors import UserError
from phasewise.records.machine import Machine

MODELS = ("NVIDIA H200", "NVIDIA H200", "NVIDIA A2")


class NVMLError(Exception):
    pass


def by_index(index):
    if index >= len(MODELS):
        raise NVMLError("Invalid Argument")
    return index


@pytest.fixture
def three_gpus(monkeypatch):
    driver = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(MODELS),
        nvmlDeviceGetHandleByIndex=by_index,
        nvmlDeviceGetHandleByUUID=lambda uuid: int(uuid.removeprefix("GPU-")),
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
        nvmlDeviceGetName=lambda handle: MODELS[handle],
    )
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_all_gpus_count_or_those_that_are_visible(three_gpus, monkeypatch):
    assert name_gpus() == {"0": "GPU-0", "1": "GPU-1", "2": "GPU-2"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1,0")
    assert name_gpus() == {"GPU-1": "GPU-1", "0": "GPU-0"}
    assert [name_device(device) for device in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert name_gpus() == {}
    assert [name_device(device) for device in ("auto", "cpu", "cuda")] == ["cpu", "cpu", "cuda"]


def test_a_run_with_a_pool_is_named_by_one_gpu_of_it(three_gpus, monkeypatch):
    monkeypatch.setenv("PHASEWISE_GPUS", "1, 0")
    assert name_gpus() == {"1": "GPU-1"}
    assert read_pool() == ["1", "0"]


def test_gpus_of_one_run_exist_and_are_alike(three_gpus):
    assert name_gpus(["0", "GPU-1"]) == {"0": "GPU-0", "GPU-1": "GPU-1"}
    with pytest.raises(UserError, match="0 is NVIDIA H200, 2 is NVIDIA A2"):
        name_gpus(["0", "2"])
    with pytest.raises(UserError, match="GPU 7: Invalid Argument; this machine has 3"):
        name_gpus(["7"])


def test_entries_end_at_the_first_that_is_none():
    assert visible_entries("1, GPU-3") == ("1", "GPU-3")
    assert visible_entries("1,-1,0") == ("1",)
    assert visible_entries("") == ()


def test_records_of_a_gpu_are_comparable_whether_or_not_its_host_has_more():
    one = Machine(device="h200", kind="cuda", name="NVIDIA H200", gpus=1, driver="580.1", power_limit_w=700.0, cores=16)
    of_four = msgspec.structs.replace(one, gpus=4, cores=64)
    assert one.identity == of_four.identity == "NVIDIA H200; 580.1; 700 W; 16 cores"
    for change in ({"name": "NVIDIA H100"}, {"driver": "581.0"}, {"power_limit_w": 500.0}, {"cores": 8}):
        assert msgspec.structs.replace(one, **change).identity != one.identity
    assert Machine(device="cpu", kind="cpu", name="a processor", cores=2).identity == "a processor; 2 cores"
