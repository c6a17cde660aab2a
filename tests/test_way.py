"""A number's way: a block's wall time, from the clock in a worker to the record that the stage makes."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import pytest

import phasewise
from phasewise.jobs import Job
from phasewise.model.layout import Layout
from phasewise.records.machine import Machine
from phasewise.records.measure import Measurement
from phasewise.records.validate import CaseValidation, Outcome, Validation
from phasewise.run import Run
from phasewise.stages import MEASURE
from phasewise.workers.channel import Channel
from programs import plan_program

HOUSE = Path(phasewise.__file__).parent
# files of ours that the number may pass through
MOST = 10
# says who made its step
PROGRAM = """
import json, traceback
from pathlib import Path
from phasewise import Case, Phase, Program, Shape, Workload
from dataclasses import dataclass
import torch

@dataclass(frozen=True)
class Switches:
    mode: str = "good"

workload = Workload(
    summary="A sum", switches=Switches, cases={"only": Case(tiny=Shape(n=8))},
    phases=(Phase("other", {"mode": "other"}, because="launch-gaps"),),
)

def make_inputs(case, shape, seed):
    return {"x": torch.rand(shape.n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)}

def build(switches, inputs, case, shape, device):
    def step(placed):
        stack = [[frame.filename, frame.name] for frame in traceback.extract_stack()]
        if any(name == "time_block" for _, name in stack):
            Path("stack.json").write_text(json.dumps(stack))
        return {"y": placed["x"] + 1.0}
    return Program(step=step)
"""


def list_files(stack: list[list[str]], first: str, last: str) -> list[str]:
    """Our files from the outermost function called `first` to the innermost called `last`, each once."""
    names = [name for _, name in stack]
    between = stack[names.index(first) : len(names) - names[::-1].index(last)]
    ours = [Path(file) for file, _ in between if Path(file).is_relative_to(HOUSE)]
    return list(dict.fromkeys(file.relative_to(HOUSE).as_posix() for file in ours))


def test_a_block_s_time_goes_from_the_clock_to_the_record_through_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "matrix.py").write_text(PROGRAM)
    plan = plan_program()
    gate = Validation(
        workload="matrix", run="tiny-cpu", variant=plan.variant, plan="", machine="", commit="", tier="strict",
        cases=(CaseValidation(case="only", outcome=Outcome.PASS, peak_memory_bytes=1),),
    )  # fmt: skip
    machine = Machine(device="cpu", kind="cpu", name="cpu", cores=2)
    run = Run("matrix", "tiny-cpu", [plan, gate, machine], layout=Layout(tmp_path))
    arrived: dict[float, list[list[str]]] = {}
    receive = Channel.receive

    def watch(channel: Channel, timeout_s: float | None = None) -> dict[str, Any] | None:
        message = receive(channel, timeout_s)
        answer = (message or {}).get("answer")
        if isinstance(answer, dict) and "wall_s" in answer:
            own = [[receive.__code__.co_filename, receive.__name__]]
            arrived[answer["wall_s"]] = [[frame.filename, frame.name] for frame in traceback.extract_stack()] + own
        return message

    monkeypatch.setattr(Channel, "receive", watch)
    record = MEASURE.make(Job(stage=MEASURE, run=run, subject=plan.variant, layout=Layout(tmp_path), scratch=tmp_path))
    assert isinstance(record, Measurement)
    (case,) = record.cases
    numbers = [sample.wall_s for taken in case.rounds for sample in taken.samples]
    assert numbers and set(numbers) <= arrived.keys()
    # the stage's function asks, the worker's loop answers, and the clock is read around the steps
    ways = {tuple(list_files(arrived[number], "_measure", "receive")) for number in numbers}
    assert len(ways) == 1
    answering = list_files(json.loads((tmp_path / "stack.json").read_text()), "serve_bench", "time_block")
    way = [*ways.pop(), *answering[::-1]]
    assert way[0] == "stages.py" and way[-2:] == ["bench/timing.py", "bench/commands.py"]
    assert len(way) == len(set(way)) <= MOST, way
