"""What a program may do to the one that judges it: each is a record with its reason, that a file can hold and a terminal can show."""

from __future__ import annotations

import pytest

from phasewise.records.validate import Outcome
from phasewise.store import decode, encode
from phasewise.validate import validate_variant
from plans import make_baseline

SOURCE = """
from dataclasses import dataclass
import os
from phasewise import Case, Chart, Check, Checked, Phase, Program, Quantity, Series, Shape, Unsupported, Work, Workload

@dataclass(frozen=True)
class Switches:
    fused: bool = False

FAULT = "{fault}"

def make_inputs(case, shape, seed):
    import torch
    if FAULT == "inputs of lists":
        return {{"x": [1.0, 2.0]}}
    return {{"x": torch.rand(shape.n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))}}

def build(switches, inputs, case, shape, device):
    if FAULT == "surrogate":
        raise RuntimeError("half \\ud800 and \\x1b[2J and \\0")
    if FAULT == "unsupported":
        raise Unsupported("half \\ud800 and \\x1b[2J")
    if FAULT == "no program":
        return None
    if FAULT == "no step":
        return Program(step="fast")
    if FAULT == "NaN fact":
        return Program(step=dict, facts={{"n": float("nan")}})
    if FAULT in GARBAGE:
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, GARBAGE[FAULT])
            except OSError:
                pass
    if FAULT == "state of lists":
        return Program(step=lambda batch: {{"y": batch["x"] * 2}}, state=lambda: {{"w": [1.0]}}, load=lambda state: None)
    name = "half \\ud800" if FAULT == "output name" else "y"
    return Program(step=lambda batch: {{name: batch["x"] * 2}})

GARBAGE = {{"text": b"hello\\n", "object": b"{{}}\\n", "list": b"[1]\\n", "deep": b"[" * 100000 + b"]" * 100000 + b"\\n"}}

def work(case, shape):
    return {{"work of 0": Work(items=0), "work of NaN": Work(items=float("nan")), "work of text": Work(items="x")}}.get(FAULT, Work(items=1))

def talks(context):
    line = Series(label="a", x=(0.0, 1.0), y=(0.0, float("nan")))
    return {{
        "NaN in a series": Checked(passed=True, chart=Chart(title="t", x_title="x", y_title="y", series=(line,))),
        "NaN in a number": Checked(passed=True, numbers={{"n": Quantity(value=float("nan"))}}),
        "message of bytes": Checked(passed=True, message=b"x"),
        "message with a surrogate": Checked(passed=True, message="half \\ud800"),
        "message that clears": Checked(passed=True, message="\\x1b[2J"),
        "passed is no bool": Checked(passed="yes"),
    }}.get(FAULT, Checked(passed=True))

workload = Workload(
    summary="Twice", switches=Switches, cases={{"main": Case(tiny=Shape(n=8))}}, phases=(), checks=(Check("talks"),)
)
"""
PROCESS = {
    "surrogate": "RuntimeError: half \ufffd and \ufffd[2J and \ufffd",
    "unsupported": "half \ufffd and \ufffd[2J",
    "no program": "a phasewise.Program is needed",
    "no step": "step = 'fast' is not allowed",
    "NaN fact": "facts['n'] = nan is not allowed",
    "text": "it wrote into the pipe",
    "object": "it wrote into the pipe",
    "list": "it wrote into the pipe",
    "deep": "it wrote into the pipe",
    "output name": "",
    "inputs of lists": "a Tensor is needed",
    "state of lists": "a Tensor is needed",
    "work of 0": "items = 0 is not allowed; a finite number above 0",
    "work of NaN": "items = nan is not allowed",
    "work of text": "items = 'x' is not allowed",
}
CHECK = {
    "NaN in a series": "nan is not allowed; a finite number or None",
    "NaN in a number": "value = nan is not allowed",
    "message of bytes": "message = b'x' is not allowed",
    "message with a surrogate": "text without control characters",
    "message that clears": "text without control characters",
    "passed is no bool": "True or False is needed",
}


@pytest.fixture
def judge(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def validate(fault):
        name = f"fault_{abs(hash(fault))}"
        (tmp_path / f"{name}.py").write_text(SOURCE.format(fault=fault))
        plan = make_baseline(f"{name}.py", tmp_path, checks=("talks",))
        record = validate_variant(plan, {}, {}, root=tmp_path, machine="m", commit="c")
        assert decode(encode(record), type(record), "record") == record
        return record.cases[0]

    return validate


@pytest.mark.parametrize(("fault", "words"), PROCESS.items(), ids=PROCESS)
def test_what_a_program_does_is_a_record_with_its_reason(fault, words, judge):
    found = judge(fault)
    assert found.outcome is not Outcome.PASS
    told = found.failure.message if found.failure else found.message
    assert words in told
    assert told.isprintable()


@pytest.mark.parametrize(("fault", "words"), CHECK.items(), ids=CHECK)
def test_what_a_check_returns_fails_with_its_reason(fault, words, judge):
    (check,) = judge(fault).checks
    assert check.outcome is Outcome.FAIL and words in check.message
    assert check.message.isprintable()
