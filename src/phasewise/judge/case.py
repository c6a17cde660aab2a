"""The judge of one case, seen from the parent: its process, the ring of batches, and what arms gave beside what is right.

Imports no torch.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from phasewise.environment import count_host_threads
from phasewise.records.plan import VariantPlan
from phasewise.records.validate import CaseValidation, Guard, Outcome, TensorError
from phasewise.records.verdict import Failure
from phasewise.tensor_files import Slot, make_file, reopen_to_read
from phasewise.workers.arm import ArmProcesses, Delivered, Launch, launch_case
from phasewise.workers.failure import ProcessFailed
from phasewise.workers.process import Process, receive_all

REFEREE = "phasewise.judge.referee"
# times the limit of other processes, since the reference may have to be made
TIMEOUTS = 4
SEEDS = 2**31


class JudgeFailed(Exception):
    """The judge could not do its work, which is no program's fault but perhaps the reference's."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Judge:
    """Any method may raise JudgeFailed, after which the judge is of no more use; those that ask an arm may raise ProcessFailed."""

    def __init__(self, plan: VariantPlan, case: str, root: Path, arms: Mapping[str, int]) -> None:
        """`arms`: how many ranks each has."""
        self._batches = make_file("batches")
        self._to_read = reopen_to_read(self._batches)
        self._results = {arm: [make_file(f"{arm}-{rank}") for rank in range(ranks)] for arm, ranks in arms.items()}
        self._open_files: tuple[int, ...] = (
            self._batches, self._to_read, *(file for files in self._results.values() for file in files),
        )  # fmt: skip
        # where each file of results stands in the list that the process has
        numbers = iter(range(sum(arms.values())))
        self._numbers = {arm: [next(numbers) for _ in files] for arm, files in self._results.items()}
        self.device = plan.device
        # seconds to make one batch, the longest so far
        self.batch_s = 0.0
        self._plan, self._case, self._root = plan, case, root
        self._timeout_s = TIMEOUTS * plan.budget.timeout_s
        self._rng = random.SystemRandom()
        self._allowances: dict[str, Any] = {}
        self._process: Process | None = None
        # why there is nothing to compare with; "" if there is
        self.skip = ""
        self.is_stateful = False
        # steps of the reference, each on a batch of its own
        self.steps = 0
        # whether it is the reference of a peer that solves another problem
        self.is_other_problem = False
        # how many items a sample has; None where the reference covers everything
        self.items: int | None = None
        # which batch of the reference each entry of the ring holds; None for a batch of another seed
        self.ring: list[int | None] = []
        self._slots: list[list[Slot]] = []

    def open(self, baseline: CaseValidation | None) -> None:
        """Start the process and load the reference. `baseline` has the baseline's own errors; None for the baseline itself."""
        files = [self._batches, *(file for files in self._results.values() for file in files)]
        self._process = Process(
            environment={**self._plan.environment, **_threads(self._plan.device)},
            folder=self._root,
            module=REFEREE,
            files=files,
        )
        known = None if baseline is None else msgspec.to_builtins(baseline)
        plan = msgspec.to_builtins(self._plan)
        told = self._ask("open", plan=plan, case=self._case, root=str(self._root), baseline=known)
        self.skip = told["skip"]
        if self.skip:
            return
        self.is_stateful, self.items, self.steps = told["stateful"], told["items"], told["entries"]
        self.is_other_problem = told["other_problem"]
        self.batch_s = told["batch_s"]
        self.ring = list(range(self.steps))
        self._slots = [*told["slots"], told["inputs"]]

    def launch(self, arm: str, plan: VariantPlan) -> Launch:
        """How to start the processes of an arm on this ring."""
        self._allowances[arm] = msgspec.to_builtins(plan.allowance)
        files = [(self._to_read, result) for result in self._results[arm]]
        return launch_case(plan, self._case, self._root, files=files)

    def fill(self, drivers: Sequence[ArmProcesses], entries: Mapping[int, int | None]) -> None:
        """Give entries of the ring batches of the reference, or new ones for None, in every process."""
        numbers = {
            str(entry): -self._rng.randrange(1, SEEDS) if number is None else number
            for entry, number in entries.items()
        }
        if not numbers:
            return
        start = time.perf_counter()
        written = self._ask("write", entries=numbers)
        self.batch_s = max(self.batch_s, (time.perf_counter() - start) / len(numbers))
        for entry, number in entries.items():
            self.ring[entry], self._slots[entry] = number, written[str(entry)]
        _refresh_all(drivers, written)

    def make(self, entries: Sequence[int]) -> None:
        """New batches for these entries, which no process can see before they are put."""
        self._ask("make", entries={str(entry): -self._rng.randrange(1, SEEDS) for entry in entries})
        for entry in entries:
            self.ring[entry] = None

    def put(self, entries: Sequence[int]) -> None:
        """Write the contents of these entries where processes can see them; none is told."""
        for entry, slots in self._ask("put", entries=list(entries)).items():
            self._slots[int(entry)] = slots

    def rewrite(self, drivers: Sequence[ArmProcesses], entries: Sequence[int]) -> None:
        """Write the contents of these entries once more in every process: nothing changes."""
        _refresh_all(drivers, {str(entry): self._slots[entry] for entry in entries})

    def check(
        self,
        arm: str,
        driver: ArmProcesses,
        *,
        entry: int,
        step: int,
        state: bool = False,
        keep: str = "",
        kept: str = "",
    ) -> tuple[TensorError, ...]:
        """Hold what the last step of an arm gave, on the batch in `entry`, against the reference's step; also against results that
        were kept under the name `kept`. All ranks are judged.
        """
        errors: list[Any] = []
        for number, told in zip(self._numbers[arm], driver.deliver(state=state), strict=True):
            if told.problem:
                return (self._refuse(told.problem, step),)
            about = {
                "arm": number, "slots": told.slots, "entry": entry, "step": step, "allowance": self._allowances[arm],
            }  # fmt: skip
            errors += self._ask("compare", **about, keep=keep)
            if kept:
                errors += self._ask("compare_with_kept", **about, name=kept)
        return msgspec.convert(tuple(errors), tuple[TensorError, ...])

    def check_against(
        self, arm: str, driver: ArmProcesses, *, entry: int, other: str, theirs: ArmProcesses
    ) -> tuple[TensorError, ...]:
        """Hold what the last step of an arm gave against what another arm gives on the same batch."""
        told = driver.deliver()
        theirs.block(1, 0, entry)
        return self.compare_arms(arm, told, entry=entry, other=other, expected=theirs.deliver()[0])

    def compare_arms(
        self, arm: str, told: Sequence[Delivered], *, entry: int, other: str, expected: Delivered
    ) -> tuple[TensorError, ...]:
        """As `check_against`, of results that both have delivered."""
        errors: list[Any] = []
        for number, mine in zip(self._numbers[arm], told, strict=True):
            if problem := mine.problem or expected.problem:
                return (self._refuse(problem, 0),)
            against = {
                "arm": self._numbers[other][0], "slots": expected.slots, "name": other,
                "allowance": self._allowances[other],
            }  # fmt: skip
            errors += self._ask(
                "compare_with_arm", arm=number, slots=mine.slots, entry=entry, allowance=self._allowances[arm],
                other=against,
            )  # fmt: skip
        return msgspec.convert(tuple(errors), tuple[TensorError, ...])

    def keep_initial(self, arm: str, driver: ArmProcesses, keep: str) -> None:
        """Keep the state that an arm starts from."""
        told = driver.deliver(outputs=False, state=True)[0]
        self._ask("initial", arm=self._numbers[arm][0], slots=told.slots, keep=keep)

    def follow_progress(self, name: str) -> tuple[Guard, ...]:
        """Whether the results that were kept under `name` follow the inputs, and the state the reference's."""
        return msgspec.convert(tuple(self._ask("progress", name=name)), tuple[Guard, ...])

    def close(self) -> None:
        """End the process and close the files; further calls do nothing."""
        if self._process is not None:
            # it holds nothing that would have to be put away
            self._process.kill()
        for file in self._open_files:
            os.close(file)
        self._open_files = ()

    def list_slots(self) -> list[list[Slot]] | None:
        """Where the batches of the ring lie now, and last what programs are built from; None where there is no reference."""
        return self._slots or None

    def _refuse(self, problem: str, step: int) -> TensorError:
        return TensorError(
            kind="output", name="", step=step, elements=0, max_abs=None, relative=None, worst=None, outcome=Outcome.FAIL,
            message=problem,
        )  # fmt: skip

    def _ask(self, command: str, **arguments: Any) -> Any:
        assert self._process is not None, "it is open"
        self._process.send(command, **arguments)
        try:
            return receive_all([self._process], f"the judge's {command}", self._timeout_s)[0]
        except ProcessFailed as died:
            raise JudgeFailed(died.failure) from died


def _refresh_all(drivers: Sequence[ArmProcesses], entries: Mapping[str, Any]) -> None:
    """Give entries of the ring other contents in all processes at the same time."""
    if drivers:
        with ThreadPoolExecutor(len(drivers)) as pool:
            list(pool.map(lambda driver: driver.refresh(entries), drivers))


def _threads(device: str) -> dict[str, str]:
    """For the reference, which may be large; on a CPU the judge shares the cores with what it judges, and is forked."""
    if device == "cpu":
        return {}
    # while it waits for work, it keeps no core from those who are timed
    return {"OMP_NUM_THREADS": str(count_host_threads()), "OMP_WAIT_POLICY": "PASSIVE"}
