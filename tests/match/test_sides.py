"""How a side is named, loaded and given the weights of the base."""

from __future__ import annotations

import subprocess
from collections import OrderedDict, UserDict
from pathlib import Path

import msgspec
import numpy
import pytest
import torch

from phasewise.match.functions import CASE, build, make_inputs, reference
from phasewise.match.known import Base, BaseRequest, Candidate, CandidateRequest
from phasewise.match.load import load_callable
from phasewise.match.plan import CANDIDATE, Setting, choose_allowance, plan_side
from phasewise.match.play import Effort
from phasewise.match.probe import probe_base, probe_candidate
from phasewise.match.revisions import check_out
from phasewise.match.side import Side, parse_side
from phasewise.match.values import PLAIN, name_results, pack_arguments, unpack_arguments
from phasewise.model.workload import Shape
from phasewise.records.errors import UserError

MODULES = Path(__file__).with_name("modules.py")
DTYPES = ("float64", "float32", "")


def ask_base(tmp_path: Path, name: str = "", file: Path = MODULES, **overrides) -> Base:
    request = BaseRequest(
        side=Side(source=str(file), name=name),
        overrides=overrides,
        start=str(tmp_path / "start.pt"),
        device="cpu",
        dtypes=DTYPES,
    )
    return msgspec.convert(probe_base(msgspec.to_builtins(request)), Base)


def ask_candidate(tmp_path: Path, name: str) -> Candidate:
    request = CandidateRequest(side=Side(source=str(MODULES), name=name), start=str(tmp_path / "start.pt"))
    return msgspec.convert(probe_candidate(msgspec.to_builtins(request)), Candidate)


def run_both(tmp_path: Path, name: str, base_name: str = "Model") -> tuple[torch.Tensor, torch.Tensor]:
    """What the reference and the candidate give for one batch."""
    base = ask_base(tmp_path, base_name)
    side, other = (Side(source=str(MODULES), name=one) for one in (base_name, name))
    setting = Setting(side=side, device="cpu", overrides={}, start=tmp_path / "start.pt", base=base)
    plan = plan_side(CANDIDATE, other, setting, choose_allowance("moderate", setting), Effort())
    shape = Shape(**plan.cases[0].shape)
    switches = type("Chosen", (), {"side": plan.switches["side"]})
    inputs = make_inputs(CASE, shape, 3)
    found = []
    for program in (reference(inputs, CASE, shape), build(switches, inputs, CASE, shape, torch.device("cpu"))):
        found.append(program.outputs(program.step(program.place(inputs)))["0"])
    return found[0], found[1]


def test_a_side_is_a_file_or_a_module_with_a_name_and_a_revision() -> None:
    here = str(Path.cwd())
    assert parse_side("a.b:f") == Side(source="a.b", name="f", folder=here)
    assert parse_side("x/m.py:f@v1.0") == Side(
        source=str(Path("x/m.py").resolve()), name="f", revision="v1.0", folder=here
    )
    assert parse_side("m.py@HEAD~1").revision == "HEAD~1" and parse_side("m.py").name == ""
    assert parse_side("/a@b/m.py:f") == Side(source="/a@b/m.py", name="f", folder=here)
    for wrong in ("a b:f", "m.py:3f", ":f", "a-b"):
        with pytest.raises(UserError, match=r"write file\.py:name"):
            parse_side(wrong)


def test_arguments_and_results_nest_and_come_back_as_they_were() -> None:
    hidden = (torch.zeros(2), torch.ones(2))
    packed = pack_arguments([torch.ones(3), hidden, {"mask": torch.ones(1), "scale": 2.0}, None])
    positional, named = unpack_arguments(packed, packed[PLAIN])
    assert named == {} and positional[3] is None and positional[2]["scale"] == 2.0
    assert isinstance(positional[1], tuple) and torch.equal(positional[1][1], hidden[1])
    packed = pack_arguments({"x": torch.ones(1), "n": 3})
    assert unpack_arguments(packed, packed[PLAIN])[1]["n"] == 3
    assert list(name_results((torch.ones(1), {"h": hidden, "none": None}))) == ["0", "1/h/0", "1/h/1"]
    assert list(name_results(torch.ones(1))) == ["0"]
    for wrong in (3.0, (torch.ones(1), "text"), ()):
        with pytest.raises(UserError, match="results: "):
            name_results(wrong)
    with pytest.raises(UserError, match=r"ndarray is given; .* give it as a tensor"):
        pack_arguments([numpy.ones(3)])


class Late(dict):
    """Computes when it is read."""

    def items(self):
        return [("y", torch.ones(1))]

    __iter__ = __getitem__ = keys = values = None


class LateTuple(tuple):
    """The same."""

    def __iter__(self):
        return iter((torch.ones(1),))


def test_results_are_read_past_the_methods_of_their_container() -> None:
    held = torch.zeros(2)
    assert name_results(Late(x=held)) == {"x": held} and name_results(LateTuple([held])) == {"0": held}
    assert list(name_results(OrderedDict(b=held, a=held))) == ["b", "a"]
    assert list(name_results(torch.ones(2, 2).max(1))) == ["0", "1"]
    with pytest.raises(UserError, match="Late without a tensor"):
        name_results(Late())
    with pytest.raises(UserError, match="UserDict is given"):
        name_results(UserDict(y=held))


@pytest.mark.parametrize(
    ("name", "doubt"), [("Renamed", "matched by order and shape: first.weight is up.weight"), ("Repacked", "")]
)
def test_a_candidate_has_the_weights_of_the_base(tmp_path: Path, name: str, doubt: str) -> None:
    right, found = run_both(tmp_path, name)
    assert right.dtype is torch.float64 and found.dtype is torch.float32
    assert torch.allclose(found.double(), right, rtol=1e-5, atol=1e-6)
    said = ask_candidate(tmp_path, name).doubt
    assert doubt in said and bool(said) == bool(doubt)


def test_complex_weights_keep_their_imaginary_parts_in_the_reference(tmp_path: Path) -> None:
    right, found = run_both(tmp_path, "Spectral", base_name="Spectral")
    assert right.dtype is torch.complex128 and found.dtype is torch.complex64
    assert torch.allclose(found.to(right.dtype), right, rtol=1e-5, atol=1e-5)
    assert right.imag.abs().max() > 1


def test_complex_arguments_are_widened_for_the_reference(tmp_path: Path) -> None:
    (file := tmp_path / "waves.py").write_text(
        "import torch\n\ndef get_inputs():\n    return [torch.randn(8, 8, dtype=torch.cfloat)]\n\ndef square(x):\n    return x @ x\n"
    )
    assert ask_base(tmp_path, "square", file).dtype == "float64"


def test_inputs_from_a_generator_that_nobody_seeds_are_told_so(tmp_path: Path) -> None:
    (file := tmp_path / "unseeded.py").write_text(
        "import torch\nown = torch.Generator()\ndef get_inputs():\n    return [torch.randn(8, generator=own)]\ndef base(x):\n    return x\n"
    )
    with pytest.raises(UserError, match="its inputs differ from one call to the next with the same seed"):
        ask_base(tmp_path, "base", file)


def test_a_side_that_is_loaded_moves_no_generator_as_a_program_that_draws_would(tmp_path: Path) -> None:
    ask_base(tmp_path)
    (file := tmp_path / "again.py").write_text(MODULES.read_text())
    before = torch.get_rng_state()
    load_callable(Side(source=str(file), name="Renamed"), tmp_path / "start.pt")
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_that_fit_nowhere_are_said_to_differ(tmp_path: Path) -> None:
    ask_base(tmp_path)
    assert ask_candidate(tmp_path, "Fused").doubt == (
        "the weights differ: the base has up.weight (32, 24), up.bias (32,), down.weight (24, 32) and 1 more, the candidate has "
        "packed (1536,); give these the same names, or override load_state_dict(weights)"
    )


def test_sizes_are_constants_of_the_module_or_parameters_of_its_inputs(tmp_path: Path) -> None:
    # a process has one shape, and keeps what it has set
    (file := tmp_path / "sizes.py").write_text(MODULES.read_text())
    assert ask_base(tmp_path, "", file, ROWS=5, WIDTH=8).flops == 2 * 2 * 5 * 8 * 32
    with pytest.raises(UserError, match=r"'DEPTH' is neither a parameter .* it has ROWS, WIDTH"):
        ask_base(tmp_path, DEPTH=3)


def test_a_base_that_draws_in_training_is_judged_in_evaluation(tmp_path: Path) -> None:
    (file := tmp_path / "drops.py").write_text(MODULES.read_text().replace("return [32, WIDTH]", "return []"))
    assert ask_base(tmp_path, "Dropped", file).evaluates
    single = ask_base(tmp_path, "Single", file)
    assert not single.evaluates and single.trains
    assert single.dtype == "float32"


def test_a_base_says_what_it_is(tmp_path: Path) -> None:
    found = ask_base(tmp_path)
    assert found.name == "Model" and found.dtype == "float64" and found.results == {"0": "float32"}
    assert found.flops == 2 * 2 * 16 * 24 * 32
    assert found.bytes == 4 * (2 * 16 * 24 + 2 * 24 * 32 + 24 + 32)


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def test_a_revision_has_a_worktree_while_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "lib").mkdir()
    file = tmp_path / "lib" / "m.py"
    for number in (1, 2):
        file.write_text(f"def f(): return {number}\n")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", str(number))
    side = parse_side(f"{file}:f@HEAD~1")
    with check_out(side, tmp_path / "there") as found:
        assert Path(found.source).read_text() == "def f(): return 1\n" and str(tmp_path / "there") in found.roots
    assert not (tmp_path / "there").exists()
    # a module that lies here, which the path of a command lacks
    monkeypatch.chdir(tmp_path)
    with check_out(parse_side("lib.m:f@HEAD~1"), tmp_path / "there") as found:
        assert found.source == "lib.m" and str(tmp_path / "there") in found.roots
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "worktree", "list"], capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.splitlines()) == 1
    with (
        pytest.raises(UserError, match="invalid reference: nowhere"),
        check_out(parse_side(f"{file}:f@nowhere"), tmp_path / "a"),
    ):
        pass
    with (
        pytest.raises(UserError, match="does not exist at revision HEAD"),
        check_out(parse_side(f"{tmp_path}/lib/n.py@HEAD"), tmp_path / "b"),
    ):
        pass
