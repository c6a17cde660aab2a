"""compute-sanitizer over one step at the tiny size: out-of-bounds accesses and races of a variant's own kernels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from phasewise.environment import find_tool
from phasewise.records.plan import VariantPlan
from phasewise.records.validate import Guard, Outcome, skipped
from phasewise.store import write
from phasewise.workers.scratch import make_scratch

MEMCHECK = "memcheck"
TOOLS = (MEMCHECK, "racecheck")
# an exit status that neither Python nor the sanitizer uses by itself
FOUND = 9
TIMEOUT_S = 300.0
# what the watched process prints once its step is done, since the sanitizer's own exit status hides that of the process
DONE = "phasewise: the step ran to its end"
# a second summary line counts the errors that were not printed
SUMMARY = re.compile(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)")
# what the program prints has no end of line before what the sanitizer prints
REFUSED_CALL = re.compile(r"=+ (Program hit .*)")
LINE = re.compile(r"^=+ ?")
# lines after the reason for which a program ended
EPILOGUE = re.compile(
    r"Target application returned an error|Error: Target application terminated before|Tracking kernels launched by child|"
    r"(ERROR|RACECHECK) SUMMARY"
)


def run_sanitizer(plan: VariantPlan, case: str, root: Path) -> tuple[Guard, ...]:
    """One guard a tool; skipped with the reason where the tool is absent or refused."""
    tool = find_tool("compute-sanitizer")
    if tool is None:
        reason = "compute-sanitizer is not installed; install the CUDA toolkit and put its bin folder on the PATH"
        return tuple(skipped(name_of(check), reason) for check in TOOLS)
    with make_scratch("sanitizer") as folder:
        file = folder / "plan.json"
        write(plan, file)
        return tuple(_run(tool, check, plan, file, case, root) for check in TOOLS)


def judge_output(check: str, code: int, output: str) -> Guard:
    """What exit status and output of compute-sanitizer amount to.

    Calls of the CUDA API that return an error count among its errors and accuse nobody: without the caching allocator cudaMalloc is
    refused while a graph is captured, and the program may well go on without.
    """
    name = name_of(check)
    lines = [LINE.sub("", line).strip() for line in output.splitlines()]
    counts = [int(count) for count in SUMMARY.findall(output)]
    if code == FOUND:
        calls = REFUSED_CALL.findall(output)
        # the first line that is about an access or a race, not the banner
        first = next((line for line in lines if re.match(r"(Invalid|Error: |Warning: )", line)), "")
        # only memcheck counts them
        if check == MEMCHECK and not first and calls and counts and len(calls) + sum(counts[1:]) >= counts[0]:
            return _judge_refused_calls(name, calls, sum(counts[1:]), DONE in output)
        found = f"{counts[0] - len(calls)} errors" if counts else "errors"
        return Guard(guard=name, outcome=Outcome.FAIL, message=f"{check} found {found}: {first}".strip(": "))
    if code == 0 and counts:
        return Guard(guard=name, outcome=Outcome.PASS)
    last = next((line for line in reversed(lines) if line and not EPILOGUE.match(line)), "it said nothing")
    return skipped(name, f"compute-sanitizer could not run (exit status {code}): {last}")


def _judge_refused_calls(name: str, calls: list[str], unprinted: int, is_done: bool) -> Guard:
    """Of a run in which everything that was printed is a refused call of the CUDA API."""
    if not is_done:
        return skipped(name, f"the step did not run to its end under compute-sanitizer: {calls[0]}")
    if unprinted:
        return skipped(name, f"{unprinted} errors were not printed, behind {len(calls)} refused CUDA calls: {calls[0]}")
    message = f"no wrong access; {len(calls)} refused CUDA calls, which the program handled: {calls[0]}"
    return Guard(guard=name, outcome=Outcome.PASS, message=message)


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
        return skipped(name_of(check), f"{check} was not done after {TIMEOUT_S:g} s")
    return judge_output(check, done.returncode, done.stdout)
