"""Look at a script: run it under hooks, read what they recorded, conclude. Imports no torch."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from phasewise.environment import detect
from phasewise.look.command import Command
from phasewise.look.conclude import find_ceilings, find_findings, list_unseen
from phasewise.look.known import CALL, REQUEST, SEEN, Request, Seen
from phasewise.records.base import Interval
from phasewise.records.errors import UserError
from phasewise.records.look import Look
from phasewise.records.machine import Machine
from phasewise.records.profile import CaseProfile
from phasewise.records.verdict import Failure, Reason
from phasewise.store import write_bytes
from phasewise.workers.failure import describe_exit
from phasewise.workers.isolated import run_isolated
from phasewise.workers.scratch import make_scratch

INSIDE = "phasewise.look.inside"
READ = "phasewise.look.read"


class ScriptFailed(Exception):
    """The script failed before its steps were seen."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def look(
    command: Command,
    *,
    step: str = "auto",
    warmup: int | None = None,
    steps: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Look:
    """Where a step of the script spends its time. The script is ended once its steps have been seen.

    `step`: "optimizer", "call", a function of the script, or package.module:function; "auto" is the first optimizer's steps, or calls of
    the outermost module where there is no optimizer. `warmup`: steps that are left out, by default ten, or those of the first five
    seconds. `steps` are timed, and as many traced: five, the fewer the longer they take.

    Raises:
        ScriptFailed: it raised an error, or died.
        UserError: no steps were seen, or too few; or the command can't be run.
    """
    began = time.monotonic()
    with make_scratch("look") as folder:
        asked = Request(
            path=command.path, module=command.module, arguments=command.arguments, step=step, warmup=warmup, steps=steps,
            folder=str(folder),
        )  # fmt: skip
        write_bytes(msgspec.json.encode(asked), folder / REQUEST)
        progress(f"{command.name} is run")
        seen = run_inside(command, folder)
        if not seen.is_complete:
            raise UserError(explain(command, seen, step))
        progress("the trace is read")
        profile = _ask("read_capture", str(folder), CaseProfile)
        progress("the ceilings of this machine are measured")
        detected = detect("cpu" if seen.device == "cpu" else "auto")
        machine = _ask("measure_machine", msgspec.to_builtins(detected), Machine)
    findings = find_findings(profile, machine, seen.step_s)
    return Look(
        script=command.name, step_kind=seen.kind, step_name=seen.name, warmup=seen.warmup,
        step_s=Interval(estimate=seen.step_s, low=min(seen.times_s), high=max(seen.times_s)), machine=machine,
        profile=profile, findings=findings, ceilings=find_ceilings(profile, machine),
        unseen=list_unseen(profile, findings, seen.warmup), seconds=time.monotonic() - began,
    )  # fmt: skip


def run_inside(command: Command, folder: Path) -> Seen:
    """Run the script in its process, with its output on our standard error; what it told.

    Raises:
        ScriptFailed: it raised an error, or died without a word.
        UserError: Python can't be started, or can't import Phasewise.
    """
    words = [command.python, *command.options, "-m", INSIDE, str(folder / REQUEST)]
    try:
        status = subprocess.run(words, stdout=sys.stderr, check=False).returncode
    except OSError as error:
        raise UserError(
            f"look: {command.python} can't be started ({error.strerror}); name a Python that is there"
        ) from error
    if not (folder / SEEN).is_file():
        if status == 1 and not _has_phasewise(command):
            raise UserError(
                f"look: {command.python} has no Phasewise and torch; name the Python in which both are installed"
            )
        raise ScriptFailed(describe_exit(status, ""))
    seen = msgspec.json.decode((folder / SEEN).read_bytes(), type=Seen)
    if seen.failure is not None and seen.failure.reason is Reason.BAD_PROGRAM:
        raise UserError(seen.failure.message)
    if seen.failure is not None:
        raise ScriptFailed(seen.failure)
    if seen.exit_status and not seen.is_complete:
        raise ScriptFailed(describe_exit(seen.exit_status, ""))
    return seen


def _has_phasewise(command: Command) -> bool:
    words = [command.python, *command.options, "-c", "import phasewise, torch"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def explain(command: Command, seen: Seen, step: str) -> str:
    """Why there is nothing to tell, and the cure."""
    if not seen.kind and seen.calls and step != CALL:
        return (
            f"look: {command.name} ended without a step of an optimizer; modules were called {seen.calls} times from outside, so give "
            "--step call, or --step with the name of the function that is a step"
        )
    if not seen.steps and not seen.calls:
        return (
            f"look: {command.name} ended without a step: no optimizer of torch stepped and no module was called; give --step with the "
            "name of the function that is a step"
        )
    return (
        f"look: {command.name} ended after {seen.steps} steps of {seen.needed} that are needed; have it make more, or leave fewer out "
        "and trace fewer, such as --warmup 1 --steps 1"
    )


def _ask(function: str, payload: Any, kind: type[Any]) -> Any:
    """The answer of a function of `read` in a process of its own; it is ours, so a failure is a fault of ours."""
    found = run_isolated(f"{READ}:{function}", payload)
    if isinstance(found, Failure):
        raise RuntimeError(f"{function}: {found.message}\n{found.traceback}")
    return msgspec.convert(found, kind)
