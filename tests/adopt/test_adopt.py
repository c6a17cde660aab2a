"""From a class of modules to a workload: what it is called with, the file, and that it plans, builds and has the module's results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch

from phasewise.adopt.known import Known
from phasewise.adopt.probe import probe_module
from phasewise.adopt.suggest import COMPILED, TF32, Suggestion
from phasewise.adopt.write import write_workload
from phasewise.match.side import parse_side, write_side
from phasewise.model.discover import load_module
from phasewise.records.errors import UserError

HERE = Path(__file__).parent
MODULES = HERE / "modules.py"
# of KernelBench's form, with a plain value among its inputs
KERNELBENCH = HERE.parent / "match" / "modules.py"


def probe(name: str, file: Path = MODULES) -> Known:
    return msgspec.convert(probe_module(write_side(parse_side(f"{file}:{name}"))), Known)


def test_what_a_file_says_is_taken_and_plain_values_are_told_apart():
    found = probe("Model", KERNELBENCH)
    assert (found.arguments, found.plain, found.maker, found.has_init) == (
        ("x", "scale"),
        {"scale": "0.5"},
        "get_inputs()",
        True,
    )
    assert not found.guessed and found.result == "tensor"


@pytest.mark.parametrize(
    ("name", "guess", "result"),
    [
        ("Words", {"words": "torch.randint(50, (shape.batch, 16), generator=generator)"}, "mapping"),
        (
            "Picture",
            {"image": "torch.randn(shape.batch, 3, 32, 32, dtype=torch.float64, generator=generator)"},
            "sequence",
        ),
    ],
)
def test_where_a_file_says_nothing_the_layers_do(name, guess, result):
    found = probe(name)
    assert found.guessed == guess and found.result == result and not found.maker and not found.has_init


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Bare", r"Bare\.forward\(x\) takes can't be guessed from its layers; define get_inputs\(\)"),
        ("Loose", "the module gives tuple; a tensor, or a list, tuple or dict of tensors is needed"),
        ("function", "is no class of modules"),
        ("Nosuch", "has no function or class 'Nosuch'"),
    ],
)
def test_what_can_t_be_adopted_is_one_sentence(name, words):
    with pytest.raises(UserError, match=words):
        probe(name)


@pytest.mark.parametrize(
    ("name", "file", "suggested", "flops"),
    [
        ("Model", KERNELBENCH, COMPILED, 2 * 2 * 16 * 24 * 32),
        # of a batch of 8, as it is guessed
        ("Words", MODULES, TF32, 8 * 16 * 2 * 12 * 3),
        ("Picture", MODULES, COMPILED, 8 * (2 * 30 * 30 * 4 * 3 * 9 + 2 * 4 * 5)),
    ],
)
def test_the_workload_loads_and_gives_what_the_module_gives(name, file, suggested, flops, tmp_path, monkeypatch):
    switch, line = suggested
    known = probe(name, file)
    source = f"adopted_{name.lower()}_source"
    (tmp_path / f"{source}.py").write_text(file.read_text())
    text = write_workload(known, source, Suggestion(switch=switch, line=line, because="fusible-chain"))
    (tmp_path / f"adopted_{name.lower()}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    program = load_module(f"adopted_{name.lower()}.py", tmp_path)
    workload = program.workload
    (phase,) = workload.phases
    assert phase.sets == {switch: True} and phase.because == "fusible-chain"
    shape = workload.cases["call"].tiny
    counted = program.work("call", shape)
    assert (counted.flops, counted.counted, counted.dtype) == (flops, True, "float32")
    inputs = program.make_inputs("call", shape, 7)
    assert all(not x.is_floating_point() or x.dtype == torch.float64 for x in inputs.values())
    again = program.make_inputs("call", shape, 7)
    assert all(torch.equal(again[one], inputs[one]) for one in inputs)
    made = program.build(workload.switches(), inputs, "call", shape, torch.device("cpu"))
    batch = {one: x.float() if x.is_floating_point() else x for one, x in inputs.items()}
    raw = made.step(batch)
    wanted = made.module(**batch, **{one: eval(value) for one, value in known.plain.items()})
    if known.result == "sequence":
        wanted = {str(index): x for index, x in enumerate(wanted)}
    results, expected = ({"0": raw}, {"0": wanted}) if known.result == "tensor" else (raw, wanted)
    assert results.keys() == expected.keys()
    tensors = [*batch.values(), *made.module.state_dict().values(), *results.values()]
    assert counted.bytes == sum(x.numel() * x.element_size() for x in tensors)
    assert all(torch.equal(results[one], expected[one]) for one in results)


def test_the_command_writes_a_project_that_plans(tmp_path):
    def call(*words, folder):
        return subprocess.run(
            [sys.executable, "-m", "phasewise", *words], cwd=folder, capture_output=True, text=True, check=False
        )

    made = call("init", "project", "--from", f"{KERNELBENCH}:Model", "--name", "adopted", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    planned = call("plan", folder=tmp_path / "project")
    assert planned.returncode == 0, planned.stderr
    assert "00-baseline" in planned.stdout and "01-" in planned.stdout
    # a project has its sources in its folder
    assert (tmp_path / "project" / "modules.py").read_text() == KERNELBENCH.read_text()
    again = call("init", "project", "--from", f"{KERNELBENCH}:Model", "--name", "adopted", folder=tmp_path)
    assert again.returncode == 2 and "exists already" in again.stderr
    taken = call("init", "third", "--from", f"{KERNELBENCH}:Model", "--name", KERNELBENCH.stem, folder=tmp_path)
    assert taken.returncode == 2 and "is the module's own file; choose another name" in taken.stderr
    assert not (tmp_path / "third").exists()
    wrong = call("init", "other", "--from", f"{MODULES}:Bare", folder=tmp_path)
    assert wrong.returncode == 2 and "can't be guessed" in wrong.stderr and "Traceback" not in wrong.stderr
    assert not (tmp_path / "other").exists()
