"""Running Nsight tools: each call ends in time, and trouble with a tool is a reason with a cure, never an exception."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phasewise.records.profile import Capture
from phasewise.workers.guarded import guard_group

# the NVTX range that `replay` puts around each step
RANGE = "step"

# signs of a refusal in a tool's output, with the reason and its cure
REFUSALS: tuple[tuple[str, str, str], ...] = (
    ("ERR_NVGPUCTRPERM", "the driver lets only administrators read hardware counters",
     "set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module, or run with CAP_SYS_ADMIN"),
    ("LibraryNotLoaded", "this sandbox or driver does not offer hardware counters (LibraryNotLoaded)",
     "run on a machine or container with direct access to the driver"),
    ("ERR_NVCMPGPU", "this GPU does not offer hardware counters", "profile on another GPU"),
    ("Profiling is not supported", "profiling is not supported on this device", "profile on another GPU"),
    ("ProfilerAlreadyInUse", "another profiler holds the GPU", "end the other profiler and run the stage again"),
    ("libdw.so", "the importer of Nsight Systems lacks libdw",
     "install libdw1, or set PHASEWISE_NSYS_LIBRARIES to a folder with libdw, libelf and libdebuginfod"),
    ("libelf.so", "the importer of Nsight Systems lacks libelf",
     "install libelf1, or set PHASEWISE_NSYS_LIBRARIES to a folder with libdw, libelf and libdebuginfod"),
)  # fmt: skip


@dataclass(frozen=True)
class Finished:
    """What became of a command."""

    # None: it could not be started, or was stopped at its limit
    code: int | None
    output: str


def run_tool(
    command: Sequence[str | Path],
    *,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Finished:
    """Run a command to its end, or stop it with all that it started after `timeout_s` seconds."""
    with guard_group() as group:
        try:
            process = subprocess.Popen(
                [str(part) for part in command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", env={**os.environ, **(environment or {})},
                process_group=group,
            )  # fmt: skip
        except OSError as error:
            return Finished(None, f"{Path(command[0]).name} cannot be started ({error.strerror})")
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(group, signal.SIGKILL)
            output, _ = process.communicate()
            return Finished(None, f"{output}\n{Path(command[0]).name} did not end within {timeout_s:.0f} s")
    return Finished(process.returncode, output)


def relative(path: Path, root: Path) -> str:
    """`path` as records name it: below the project's top folder, else the name alone."""
    path, root = path.resolve(), root.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def replay_command(plan: Path, case: str, root: Path, steps: int) -> list[str]:
    """The command that steps a case inside a range of the CUDA profiler."""
    return [
        sys.executable, "-m", "phasewise.profile.replay", str(plan), case, "--root", str(root), "--steps", str(steps)
    ]  # fmt: skip


def skip(tool: str, output: str, otherwise: str, cure: str = "") -> Capture:
    """Why a tool left nothing behind: a refusal that is known, else the last line that it wrote."""
    for sign, reason, known_cure in REFUSALS:
        if sign in output:
            return Capture(tool=tool, skipped=reason, cure=known_cure)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    last = Path(errors[-1] if errors else lines[-1]).name if lines else ""
    return Capture(tool=tool, skipped=f"{otherwise}: {last[:200]}" if last else otherwise, cure=cure)
