"""The machine, its driver, versions and tools; found without importing torch."""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from phasewise.model.needs import RECORDED
from phasewise.records.errors import UserError
from phasewise.records.machine import Machine, Tool

# GPUs of one model that the jobs of a run share, one for each rank; `phasewise run --gpus` sets it where the caller did not
POOL = "PHASEWISE_GPUS"
# GPUs that CUDA lets a process see
VISIBLE = "CUDA_VISIBLE_DEVICES"
# more do not help: what they wait for is memory
MOST_HOST_THREADS = 8
# packages that can change a number
PACKAGES = (*RECORDED.values(), "snakemake", "dvc", "phasewise")


def detect(prefer: str = "auto") -> Machine:
    """This machine, without measured peaks. `prefer` is "auto", "cpu" or "cuda"."""
    with _nvml() as nvml:
        if nvml is not None and prefer != "cpu":
            return _detect_gpu(nvml)
    return _detect_cpu()


def commit(root: Path) -> str:
    """Commit of the project, with "+" where tracked sources differ from it; "" outside git.

    `PHASEWISE_COMMIT` says it where the tree travels without its history.
    """
    told = os.environ.get("PHASEWISE_COMMIT")
    if told:
        return told
    head = _run(["git", "rev-parse", "--short=12", "HEAD"], root)
    dirty = _run(["git", "status", "--porcelain", "--untracked-files=no", "--", "src", "workflow", "Snakefile"], root)
    return head + ("+" if head and dirty else "")


def _detect_cpu() -> Machine:
    return Machine(
        device="cpu",
        kind="cpu",
        name=_processor(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        cores=count_cores(),
        python=platform.python_version(),
        versions=_versions(),
        tools=_tools(gpu=False),
    )


def _detect_gpu(nvml: ModuleType) -> Machine:
    handles = [find_gpu(nvml, entry) for entry in _visible(nvml)]
    handle = handles[0]
    name = _text(nvml.nvmlDeviceGetName(handle))
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
    limit = None
    with contextlib.suppress(nvml.NVMLError):
        limit = nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000
    return Machine(
        device=short_name(name) + (f"x{len(handles)}" if len(handles) > 1 else ""),
        kind="cuda",
        name=name,
        # a run with a pool names its machine by one GPU, and its phases may have as many ranks as there are
        gpus=len(read_pool()) or len(handles),
        capability=(major, minor),
        memory_bytes=nvml.nvmlDeviceGetMemoryInfo(handle).total,
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
        power_limit_w=limit,
        cores=count_cores(),
        python=platform.python_version(),
        versions=_versions(),
        tools=_tools(gpu=True),
    )


def short_name(name: str) -> str:
    """`NVIDIA H200` -> `h200`, `NVIDIA A100-SXM4-80GB` -> `a100`, `NVIDIA GeForce RTX 3080 Ti` -> `rtx3080ti`."""
    words = [
        word for word in name.lower().replace("-", " ").split() if word not in ("nvidia", "geforce", "tesla", "quadro")
    ]
    if words and words[0] == "rtx":
        return "".join(words)
    return "".join(character for character in words[0] if character.isalnum()) if words else "gpu"


@contextlib.contextmanager
def _nvml() -> Iterator[ModuleType | None]:
    """The NVML module, initialised, if there is a GPU to ask."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml if _visible(pynvml) else None
    finally:
        pynvml.nvmlShutdown()


def read_pool() -> list[str]:
    """Entries of CUDA_VISIBLE_DEVICES that the jobs of this run share; empty in a run without a pool."""
    return [entry.strip() for entry in os.environ[POOL].split(",")] if os.environ.get(POOL) else []


def name_device(device: str) -> str:
    """`device`; for "auto" "cuda" where there is a GPU, else "cpu"."""
    if device != "auto":
        return device
    return "cuda" if name_gpus() else "cpu"


def name_gpus(entries: Sequence[str] | None = None) -> dict[str, str]:
    """UUID of each GPU that an entry of CUDA_VISIBLE_DEVICES names, by default of all that it leaves; empty without a GPU.

    Raises:
        UserError: one of `entries` is no GPU, or they are not of one model.
    """
    with _nvml() as nvml:
        if nvml is None:
            return {}
        if entries is None:
            return {entry: _text(nvml.nvmlDeviceGetUUID(find_gpu(nvml, entry))) for entry in _visible(nvml)}
        handles = {}
        for entry in entries:
            try:
                handles[entry] = find_gpu(nvml, entry)
            except nvml.NVMLError as error:
                count = nvml.nvmlDeviceGetCount()
                raise UserError(f"GPU {entry}: {error}; this machine has {count}, numbered from 0") from error
        models = {entry: _text(nvml.nvmlDeviceGetName(handle)) for entry, handle in handles.items()}
        if len(set(models.values())) > 1:
            told = ", ".join(f"{entry} is {model}" for entry, model in models.items())
            raise UserError(f"GPUs of one run have to be of one model, and {told}; leave out the others")
        return {entry: _text(nvml.nvmlDeviceGetUUID(handle)) for entry, handle in handles.items()}


def find_gpu(nvml: ModuleType, entry: str) -> Any:
    """NVML's handle of an entry of CUDA_VISIBLE_DEVICES: a number or a UUID. Raises NVMLError."""
    if entry.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(entry))
    return nvml.nvmlDeviceGetHandleByUUID(entry)


def _visible(nvml: ModuleType) -> tuple[str, ...]:
    """Entries of CUDA_VISIBLE_DEVICES; without it, one GPU of a run with a pool, else the numbers of all."""
    count = nvml.nvmlDeviceGetCount()
    chosen = os.environ.get(VISIBLE)
    if chosen is None:
        return tuple(read_pool()[:1] or map(str, range(count)))
    return visible_entries(chosen)[:count]


def visible_entries(chosen: str) -> tuple[str, ...]:
    """GPUs that a value of CUDA_VISIBLE_DEVICES names: CUDA stops at the first entry that is none."""
    stripped = (entry.strip() for entry in chosen.split(","))
    return tuple(itertools.takewhile(lambda entry: entry not in ("", "-1"), stripped))


def _tools(*, gpu: bool) -> tuple[Tool, ...]:
    tools = []
    for name, cure in (
        ("ncu", "install Nsight Compute and put it on the PATH"),
        ("nsys", "install Nsight Systems and put it on the PATH"),
        ("compute-sanitizer", "install the CUDA toolkit and put its bin folder on the PATH"),
    ):
        path = find_tool(name)
        reason = "" if path else "not found"
        if not gpu:
            reason = "no NVIDIA GPU"
        tools.append(Tool(name=name, available=path is not None and gpu, reason=reason, cure=cure if reason else ""))
    return tuple(tools)


def find_tool(name: str) -> Path | None:
    """Path of an Nsight tool: on the PATH, below CUDA_HOME, or (nsys) inside an installation of Nsight Compute."""
    found = shutil.which(name)
    if found:
        return Path(found)
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    candidates = [home / "bin" / name]
    if name == "nsys":
        candidates += sorted(Path("/opt/nvidia").glob("nsight-*/*/host/target-linux-x64/nsys"), reverse=True)
        candidates += sorted(Path("/opt/nvidia").glob("nsight-systems/*/bin/nsys"), reverse=True)
    return next((path for path in candidates if path.is_file()), None)


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_host_threads() -> int:
    """Threads for what the host computes beside a GPU, whose programs hardly use the cores."""
    return min(MOST_HOST_THREADS, count_cores())


def _processor() -> str:
    """Model name of the processor, never the host's name."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine() or sys.platform


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
