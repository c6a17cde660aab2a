"""The corpus of cheats: each saves work where nobody looks, and is refused, or has no gain, where it is judged; honest programs never are."""

from __future__ import annotations

import ast

import pytest
import torch
from corpus import CORPUS, HERE, HONEST, PARTS
from play import NO_GAIN, judge, leave_phase, plan, validate
from test_cheats import CHEATS

from phasewise.bench.functions import load_functions
from phasewise.model.workload import Shape
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Reason, Status
from phasewise.workers.isolated import run_isolated

# what is judged today as if it were honest: each leaves this list once it is refused. The last is trusted not to (docs/judge.md)
NOT_YET = {"poisons_cache"}
# time of an honest step over a cheat's, at least
SAVES = 1.25
# says nothing of a cheat, unless that is what slows the parent
DISTURBED = (Reason.NEIGHBOUR, Reason.THROTTLED)
# as in a timed process of a group: cheats look at these
TIMED = {"TORCHINDUCTOR_CACHE_DIR": "empty", "RANK": "1"}
ON_CPU = [name for name, cheat in CORPUS.items() if not cheat.cuda]
ON_GPU = [name for name, cheat in CORPUS.items() if cheat.cuda]


def mark(names):
    """Cheats that pass today are expected to, so that the first one that is refused shows."""
    known = pytest.mark.xfail(strict=True, reason="not refused yet")
    return [pytest.param(name, marks=[known] if name in NOT_YET else []) for name in names]


@pytest.mark.parametrize("name", mark([name for name in ON_CPU if CORPUS[name].refused_by == "gate"]))
def test_a_gate_refuses_what_is_wrong_whenever_it_is_looked_at(name, tmp_path):
    planned = plan(HERE / f"{name}.py", tmp_path, size=CORPUS[name].size)
    # beyond a sample, it is the baseline that tells
    chosen = planned if CORPUS[name].size == "full" else leave_phase(planned)
    found = [gate.cases[0] for gate in validate(chosen, tmp_path).values()]
    assert Outcome.FAIL in {gate.outcome for gate in found}, found[-1]


@pytest.mark.parametrize("name", HONEST)
def test_a_gate_passes_an_honest_program_that_looks_suspicious(name, tmp_path):
    planned = plan(HERE / "honest" / f"{name}.py", tmp_path)
    for gate in validate(leave_phase(planned), tmp_path).values():
        assert gate.cases[0].outcome is Outcome.PASS, gate.cases[0].message


@pytest.mark.slow
@pytest.mark.parametrize("name", mark([name for name in ON_CPU if CORPUS[name].refused_by != "gate"]))
def test_a_cheat_is_refused_or_has_no_gain(name):
    verdict = judge(HERE / f"{name}.py", size=CORPUS[name].size)
    if verdict.reason in DISTURBED:
        pytest.skip(f"others used this machine: {verdict}")
    assert verdict.status in NO_GAIN, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_GPU)
def test_a_cheat_on_a_gpu_is_refused_or_has_no_gain(name):
    verdict = judge(HERE / f"{name}.py", size="full", device="cuda")
    assert verdict.status in NO_GAIN, verdict


@pytest.mark.parametrize("name", ON_GPU)
def test_a_cheat_for_a_gpu_has_an_honest_twin_that_runs_anywhere(name):
    functions = load_functions(f"{name}.py", HERE)
    shape = Shape(rows=8, width=16)
    inputs = functions.make_inputs("main", shape, 0)
    program = functions.build(functions.workload.switches(), inputs, "main", shape, torch.device("cpu"))
    (output,) = program.step(program.place(inputs)).values()
    assert output.shape[0] == shape.rows and torch.isfinite(output).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_program_that_looks_suspicious_is_never_refused(name):
    verdict = judge(HERE / "honest" / f"{name}.py")
    assert verdict.status not in (Status.INVALID, Status.FAILED, Status.SKIPPED), verdict
    assert verdict.reason is not Reason.RED_GATE


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ON_CPU if CORPUS[name].wins_by != "parent"])
def test_a_cheat_saves_work_where_nobody_looks(name):
    target, payload = f"{HERE / 'unwatched.py'}:compare", {"source": f"{name}.py", "root": str(HERE)}
    found = run_isolated(target, payload, environment=TIMED, timeout_s=60.0, folder=HERE)
    assert isinstance(found, dict), found
    honest, cheat = found["honest"], found["cheat"]
    if CORPUS[name].wins_by == "told":
        # all answers of a process that cheats may be bent, those about the honest program too
        assert max(honest["wall_s"], cheat["true_s"]) > SAVES * cheat["wall_s"], found
    else:
        assert honest["worked_s"] > SAVES * cheat["worked_s"], found


def test_every_cheat_stands_in_the_corpus_and_says_what_it_fakes():
    files = {path.stem for path in HERE.glob("*.py")} - PARTS
    assert files == {*CORPUS, *CHEATS, "side_stream"}
    assert set(ON_CPU) >= NOT_YET
    for path in [*HERE.glob("*.py"), *(HERE / "honest").glob("*.py")]:
        assert ast.get_docstring(ast.parse(path.read_text())), path.name


def test_the_corpus_is_large_enough():
    # the issue wants 60 with the old ones, of them 15 that need CUDA
    assert len(CORPUS) + len(CHEATS) + 1 >= 70
    assert len(ON_GPU) >= 15
    assert len(HONEST) >= 10
