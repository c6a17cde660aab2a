"""Snakemake followed while it runs: its own lines go to a log, a line a job that people understand to the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from phasewise.cli.command_group import run_in_group
from phasewise.cli.job_lines import describe_job, name_stage
from phasewise.cli.say import say
from phasewise.model.layout import Layout

# below the project's folder
LOG = Path("logs") / "run.log"
# of a job that failed, lines of its log
LAST_LINES = 3
# after Snakemake has ended, for what it told last to be read
GRACE_S = 5.0


@dataclass(kw_only=True)
class Followed:
    """What became of the jobs so far."""

    layout: Layout
    # number of a job -> its rule and wildcards
    jobs: dict[int, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    # that ended and are not told yet: how many are left comes after them
    waiting: list[int] = field(default_factory=list)

    def hear(self, told: Mapping[str, Any]) -> None:
        """One event of the plugin."""
        match told["event"]:
            case "job_info":
                self.jobs[told["job"]] = told["rule"], told["wildcards"]
            case "job_finished":
                self.ended.add(told["job"])
                self.waiting.append(told["job"])
            case "progress":
                for job in self.waiting:
                    # the last target stands for all, and is no work
                    if self.jobs[job][0] != "all":
                        outcome = describe_job(self.layout, *self.jobs[job])
                        say(f"[{told['done']} of {told['total'] - 1}] {self._name(job)}: {outcome}")
                self.waiting.clear()
            case "job_error" if told["job"] not in self.failed:
                self.failed.add(told["job"])
                say(f"{self._name(told['job'])} failed: {_read_end(told['logs'])}", err=True)

    def _name(self, job: int) -> str:
        rule, wildcards = self.jobs[job]
        of = [wildcards[name] for name in ("workload", "variant", "case") if name in wildcards]
        return " ".join([name_stage(rule), *of])


def follow(arguments: Sequence[str], environment: Mapping[str, str], layout: Layout) -> tuple[int, Followed]:
    """Run Snakemake with `arguments` to its end: its exit status, and what became of its jobs."""
    followed = Followed(layout=layout)
    log = layout.root / LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    told = ["--logger", "phasewise", "--logger-phasewise-pipe", str(writing)]
    # a `--` among the arguments ends what Snakemake takes for options
    words = [sys.executable, "-m", "snakemake", *told, *arguments]
    listener = Thread(target=_listen, args=(reading, followed), daemon=True)
    listener.start()
    with log.open("wb") as output:
        code = run_in_group(words, environment, output=output, kept=(writing,))
    listener.join(GRACE_S)
    return code, followed


def _listen(reading: int, followed: Followed) -> None:
    with os.fdopen(reading, "rb") as pipe:
        for line in pipe:
            followed.hear(json.loads(line))


def _read_end(logs: Iterable[str]) -> str:
    """The last lines of the first log that has any."""
    for path in map(Path, logs):
        lines = [line for line in path.read_text(errors="replace").splitlines() if line] if path.is_file() else []
        if lines:
            return f"{' / '.join(lines[-LAST_LINES:])} ({path})"
    return f"see {LOG}"
