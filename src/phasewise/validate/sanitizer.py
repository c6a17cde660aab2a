"""compute-sanitizer over one step at the tiny size: out-of-bounds accesses and races of a variant's own kernels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from phasewise.environment import find_tool
from phasewise.records.plan import VariantPlan
from phasewise.records.validate import Guard, Outcome, skipped
from phasewise.store import write
from phasewise.validate.races import count_hazards, read_hazards, sort_hazards
from phasewise.workers.scratch import make_scratch

MEMCHECK = "memcheck"
RACECHECK = "racecheck"
# the default report of races gives no launcher, and 0 for no limit would let a kernel that races write gigabytes
MOST_HAZARDS = 20_000
OPTIONS: Mapping[str, tuple[str, ...]] = {
    MEMCHECK: (),
    RACECHECK: ("--racecheck-report", "hazard", "--print-limit", str(MOST_HAZARDS)),
}
NO_CACHING = "PYTORCH_NO_CUDA_MEMORY_CACHING"
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
        return tuple(skipped(name_of(check), reason) for check in OPTIONS)
    with make_scratch("sanitizer") as folder:
        file = folder / "plan.json"
        write(plan, file)
        return tuple(_run(tool, check, plan, file, case, root) for check in OPTIONS)


def judge_output(check: str, code: int, output: str) -> Guard:
    """What exit status and output of compute-sanitizer amount to.

    Calls of the CUDA API that return an error count among its errors and accuse nobody: without the caching allocator cudaMalloc is
    refused while a graph is captured, and the program may well go on without. Nor do races inside a library's kernel and those of
    one reduced value accuse, see `validate/races.py`.
    """
    name = name_of(check)
    counted = count_hazards(output) if check == RACECHECK and code in (0, FOUND) else None
    # warnings are races too, and leave the exit status 0
    if counted is not None and any(counted):
        return _judge_races(name, output, *counted)
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
    return skipped(name, _tell_end(code, output))


def _judge_races(name: str, output: str, printed: int, found: int) -> Guard:
    """Of a run in which racecheck found something, and printed all of it or a part."""
    hazards = read_hazards(output)
    accusing, excused = sort_hazards(hazards)
    missing = f"{found - printed} of {found} hazards were not printed" if found > printed else ""
    if accusing:
        told = f"racecheck found {len(accusing)} hazards: {accusing[0]}"
    elif len(hazards) != printed:
        told = f"racecheck printed {printed} errors, of which {len(hazards)} are hazards of two threads"
    elif DONE not in output:
        return skipped(name, _tell_end(FOUND, output))
    elif missing:
        return skipped(name, "; ".join((missing, *excused)))
    else:
        return Guard(guard=name, outcome=Outcome.PASS, message="; ".join(excused))
    return Guard(guard=name, outcome=Outcome.FAIL, message=f"{told}; {missing}" if missing else told)


def _tell_end(code: int, output: str) -> str:
    """Why nothing is known, in the last words of the program or of the sanitizer."""
    said = [line for line in output.splitlines() if (text := LINE.sub("", line).strip()) and not EPILOGUE.match(text)]
    last = said[-1] if said else "it said nothing"
    if said and not last.startswith("="):
        return f"the step did not run to its end under compute-sanitizer (exit status {code}): {last}"
    return f"compute-sanitizer could not run (exit status {code}): {LINE.sub('', last).strip()}"


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
        str(tool), "--tool", check, *OPTIONS[check], "--error-exitcode", str(FOUND), "--target-processes", "application-only",
        sys.executable, "-m", "phasewise.validate.sanitized", str(file), case, str(root),
    ]  # fmt: skip
    environment = {**os.environ, **plan.environment}
    # the caching allocator would hide an access beyond a tensor inside its segment; racecheck "only supports detecting accesses to
    # on-chip shared memory" (its manual), and without the allocator no graph can be captured
    environment.pop(NO_CACHING, None)
    if check == MEMCHECK:
        environment[NO_CACHING] = "1"
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return skipped(name_of(check), f"{check} was not done after {TIMEOUT_S:g} s")
    return judge_output(check, done.returncode, done.stdout)
