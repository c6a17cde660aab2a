"""One arm of a comparison: its worker process, or its group of them, started, timed and ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from phasewise.records.plan import VariantPlan
from phasewise.records.verdict import Failure, Reason
from phasewise.tensor_files import Slot
from phasewise.workers.enclosure import Enclosure
from phasewise.workers.failure import ProcessFailed
from phasewise.workers.forkserver import TOOLED, name_set
from phasewise.workers.group import rank_environments
from phasewise.workers.process import Process, receive_all

T = TypeVar("T")
# where the batches of the ring lie in the first file, and last what programs are built from; None: a program makes its own
Ring = Sequence[Sequence[Slot]] | None


class TimedBlock(msgspec.Struct, frozen=True):
    """What a worker says of a block."""

    wall_s: Annotated[float, msgspec.Meta(gt=0)]


class Delivered(msgspec.Struct, frozen=True):
    """Where a worker has written results; or why it has not."""

    problem: str
    slots: list[Slot]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What a worker opens, and the processes that it takes."""

    # what `open_bench` is called with
    to_open: Mapping[str, Any]
    # memory files of each rank: batches to read, results to write
    files: Sequence[tuple[int, ...]] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    ranks: int = 1
    # whether processes are to show how they differ, so that those of different sets may not share a layout of memory
    fresh: bool = True
    # the set that they are of, which may have a fork server of its own
    process_set: int | None = None
    # whether the compiler, and beside what is told of no time the tools of a profile, may be imported already
    tooled: bool = False
    # what its processes may see and write; None where they are trusted
    enclosure: Enclosure | None = None
    folder: Path = Path()
    timeout_s: float = 600.0


def launch_case(
    plan: VariantPlan,
    case: str,
    root: Path,
    *,
    shape: Mapping[str, Any] | None = None,
    make: str = "phasewise.bench.stepper:bench_case",
    files: Sequence[tuple[int, ...]] = (),
) -> Launch:
    """A variant in one case, at another shape if one is given, on batches of its own or on those of a judge; `make` gives its bench."""
    planned = plan.case(case)
    return Launch(
        files=files,
        to_open={
            "make": make,
            "arguments": {
                "plan": msgspec.to_builtins(plan),
                "case": case,
                "root": str(root),
                "shape": shape and dict(shape),
            },
            "device": plan.device,
            "memory_bytes": planned.memory_limit_bytes,
            "weak": planned.scaling == "weak",
            "cold": planned.cache == "cold",
        },
        environment=plan.environment,
        ranks=plan.ranks,
        fresh=plan.budget.max_sets > 1,
        folder=root,
        timeout_s=plan.budget.timeout_s,
    )


def launch_function(
    function: str,
    *,
    setup: str = "",
    arguments: Mapping[str, Any] | None = None,
    device: str = "auto",
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 600.0,
    fresh: bool = True,
) -> Launch:
    """A function that is one step; `setup(**arguments)` gives what it is called with."""
    return Launch(
        to_open={
            "make": "phasewise.bench.stepper:bench_function",
            "arguments": {"function": function, "setup": setup, "arguments": dict(arguments or {}), "device": device},
            "device": device,
        },
        environment=environment or {},
        fresh=fresh,
        folder=Path.cwd(),
        timeout_s=timeout_s,
    )


def _choose_server(launch: Launch) -> str | None:
    """Which fork server may give its processes; None where they have to be fresh."""
    tools = TOOLED if launch.tooled else ""
    if launch.fresh:
        return None if launch.process_set is None else name_set(launch.process_set) + tools
    return tools


class ArmProcesses:
    """The processes of one arm. Every method raises ProcessFailed, after which all of them are gone."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._processes = [
            Process(
                environment={**launch.environment, **extra},
                folder=launch.folder,
                server=_choose_server(launch),
                files=files,
                enclosure=launch.enclosure,
            )
            for extra, files in zip(rank_environments(launch.ranks), launch.files or [()] * launch.ranks, strict=True)
        ]
        for process in self._processes:
            process.send("import")
        self._ready = False
        self._opened: dict[str, Any] | None = None

    def is_alive(self) -> bool:
        return not any(process.is_dead() for process in self._processes)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes)

    def wait(self) -> None:
        """Wait until the processes have imported what they need; from then on they are idle until asked."""
        if not self._ready:
            receive_all(self._processes, "import", self._launch.timeout_s)
            self._ready = True

    def open(self, *, ring: Ring = None, concurrent_builds: int = 0) -> dict[str, Any]:
        """Build and make the first step, while `concurrent_builds` other processes build; the worker's `Opened`, with the times of the slowest
        rank. Further calls return the same.
        """
        if self._opened is None:
            self.wait()
            answers = self._ask("open", **self._launch.to_open, ring=ring, concurrent_builds=concurrent_builds)
            slowest = {name: max(answer[name] for answer in answers) for name in ("build_s", "first_step_s")}
            self._opened = {**answers[0], **slowest}
        return self._opened

    def block(self, steps: int, settle: int, first: int = 0) -> dict[str, Any]:
        """After `settle` untimed steps, time `steps` from number `first` and the initial state, by the slowest rank's clock and by ours."""
        self.settle(settle)
        return self.block_at_once(steps, first)

    def block_at_once(self, steps: int, first: int = 0) -> dict[str, Any]:
        """As `block`, with nothing settled before: no garbage is collected, no state is loaded."""
        start = time.perf_counter()
        answers = self._ask("block", first=first, steps=steps)
        parent_s = time.perf_counter() - start
        blocks = self._parse("block", answers, TimedBlock)
        ends = self._ask("end")
        rank, slowest = max(enumerate(blocks), key=lambda block: block[1].wall_s)
        return {"steps": steps, "parent_s": parent_s, "wall_s": slowest.wall_s, **ends[rank]}

    def settle(self, steps: int) -> None:
        """Take untimed steps, then load the initial state."""
        self._ask("settle", steps=steps)

    def deliver(self, *, outputs: bool = True, state: bool = False) -> list[Delivered]:
        """Where each rank has written what its last step gave."""
        return self._parse("deliver", self._ask("deliver", outputs=outputs, state=state), Delivered)

    def refresh(self, entries: Mapping[str, Any]) -> None:
        """Give entries of the ring other contents: `entries` tells where these lie in the file of batches."""
        self._ask("refresh", entries=dict(entries))

    def apply(self, function: str, kind: type[T], **arguments: Any) -> list[T]:
        """What `function(state, **arguments)` gives in each rank, as records of this kind."""
        return self._parse("apply", self._ask("apply", function=function, arguments=arguments), kind)

    def singles(self, count: int) -> list[float]:
        """Seconds of single steps, each of the slowest rank."""
        return [max(times) for times in zip(*self._ask("singles", count=count), strict=True)]

    def placing(self, count: int) -> list[float]:
        """Seconds to place one batch."""
        return [max(times) for times in zip(*self._ask("placing", count=count), strict=True)]

    def energy(self, steps: int) -> tuple[float, float] | None:
        """Seconds of the slowest rank and joules of all."""
        answers = self._ask("energy", steps=steps)
        if any(answer is None for answer in answers):
            return None
        return max(seconds for seconds, _ in answers), sum(joules for _, joules in answers)

    def count(self, steps: int = 1) -> tuple[int, int]:
        """Operators of `steps` steps, and elements that they read and write, in the rank with most operators."""
        answer = max(self._ask("count", steps=steps), key=lambda work: work["operators"])
        return answer["operators"], answer["elements"]

    def memory(self) -> tuple[int, str]:
        """Peak bytes of the rank that used most, and how they were counted."""
        answer = max(self._ask("memory"), key=lambda peak: peak["bytes"])
        return answer["bytes"], answer["kind"]

    def files(self) -> set[str]:
        """Names of the files that the processes have loaded of the workload and the kit."""
        return {name for answer in self._ask("files") for name in answer}

    def close(self) -> None:
        """End the processes; the program is closed first if they still live."""
        for process in self._processes:
            process.send("close")
        for process in self._processes:
            process.close()

    def _parse(self, command: str, answers: list[Any], kind: type[T]) -> list[T]:
        """The answers, checked, since any code in those processes may have written them."""
        try:
            return msgspec.convert(answers, list[kind])  # type: ignore[valid-type]
        except msgspec.ValidationError as error:
            for process in self._processes:
                process.kill()
            message = f"its answer to {command!r} can't be read ({error})"
            raise ProcessFailed(Failure(reason=Reason.BAD_PROGRAM, message=message)) from error

    def _ask(self, command: str, **arguments: Any) -> list[Any]:
        for process in self._processes:
            process.send(command, **arguments)
        what = arguments["function"].rpartition(":")[2] if command == "apply" else command
        return receive_all(self._processes, what, self._launch.timeout_s)
