"""compute-sanitizer over one step at the tiny size: out-of-bounds accesses and races of a variant's own kernels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from phasewise.environment import find_tool
from phasewise.records.plan import VariantPlan
from phasewise.records.validate import Guard, Outcome
from phasewise.store import write
from phasewise.workers.scratch import make_scratch

TOOLS = ("memcheck", "racecheck")
# an exit status that neither Python nor the sanitizer uses by itself
FOUND = 9
TIMEOUT_S = 300.0
SUMMARY = re.compile(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)")
LINE = re.compile(r"^=+ ?")


def run_sanitizer(plan: VariantPlan, case: str, root: Path) -> tuple[Guard, ...]:
    """One guard a tool; skipped with the reason where the tool is absent or refused."""
    tool = find_tool("compute-sanitizer")
    if tool is None:
        reason = "compute-sanitizer is not installed; install the CUDA toolkit and put its bin folder on the PATH"
        return tuple(Guard(guard=name_of(check), outcome=Outcome.SKIPPED, message=reason) for check in TOOLS)
    with make_scratch("sanitizer") as folder:
        file = folder / "plan.json"
        write(plan, file)
        return tuple(_run(tool, check, plan, file, case, root) for check in TOOLS)


def judge_output(check: str, code: int, output: str) -> Guard:
    """What exit status and output of compute-sanitizer amount to."""
    lines = [LINE.sub("", line).strip() for line in output.splitlines()]
    counts = [int(count) for count in SUMMARY.findall(output)]
    if code == FOUND:
        # the first line that is about an access or a race, not the banner
        first = next((line for line in lines if re.match(r"(Invalid|Error: |Warning: |Program hit)", line)), "")
        found = f"{counts[-1]} errors" if counts else "errors"
        return Guard(guard=name_of(check), outcome=Outcome.FAIL, message=f"{check} found {found}: {first}".strip(": "))
    if code == 0 and counts:
        return Guard(guard=name_of(check), outcome=Outcome.PASS)
    last = next((line for line in reversed(lines) if line), "it said nothing")
    return Guard(
        guard=name_of(check),
        outcome=Outcome.SKIPPED,
        message=f"compute-sanitizer could not run (exit status {code}): {last}",
    )


def name_of(check: str) -> str:
    """The guard's name."""
    return f"sanitizer-{check}"


def _run(tool: Path, check: str, plan: VariantPlan, file: Path, case: str, root: Path) -> Guard:
    command = [
        str(tool), "--tool", check, "--error-exitcode", str(FOUND), "--target-processes", "application-only",
        sys.executable, "-m", "phasewise.validate.sanitized", str(file), case, str(root),
    ]  # fmt: skip
    # the caching allocator would hide an access beyond a tensor inside its segment
    environment = {**os.environ, **plan.environment, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        message = f"{check} was not done after {TIMEOUT_S:g} s"
        return Guard(guard=name_of(check), outcome=Outcome.SKIPPED, message=message)
    return judge_output(check, done.returncode, done.stdout)
