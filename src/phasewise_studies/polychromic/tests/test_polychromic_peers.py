"""Peers on the CPU at `tiny`: they give what they are asked for, and what can be compared agrees."""

from __future__ import annotations

import pytest
import torch

from phasewise import Shape
from phasewise.bench.case import fill_defaults
from phasewise_studies.polychromic import peers, program
from phasewise_studies.polychromic.phases import workload
from phasewise_studies.polychromic.tests.test_polychromic_program import size

CPU = torch.device("cpu")


def step(name: str, case: str, device: torch.device = CPU) -> dict[str, torch.Tensor]:
    shape = size(case)
    inputs = program.make_inputs(case, shape, 0)
    built = fill_defaults(getattr(peers, name)(inputs, case, shape, device), device)
    return built.outputs(built.step(built.place(inputs)))


@pytest.mark.parametrize(
    ("name", "case", "texts"), [("generate_batched", "replies", 6), ("generate_sequential", "train-step", 6)]
)
def test_the_library_generates_as_many_tokens_as_we_do(name: str, case: str, texts: int) -> None:
    pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")
    assert step(name, case)["tokens"].shape == (texts, size(case).tokens)


@pytest.mark.parametrize(("name", "case"), [("sentence_transformers", "encode"), ("cosine_matrix", "diversity")])
def test_sentence_transformers_agrees_with_float64(name: str, case: str) -> None:
    pytest.importorskip(
        "sentence_transformers", reason="needs sentence-transformers (pip install sentence-transformers)"
    )
    shape = workload.cases[case].tiny
    inputs = program.make_inputs(case, shape, 0)
    exact = fill_defaults(program.reference(inputs, case, shape), CPU, torch.float64)
    wanted = exact.outputs(exact.step(exact.place(inputs)))
    for output, tensor in step(name, case).items():
        assert torch.allclose(tensor.double(), wanted[output], atol=1e-5)


@pytest.mark.parametrize("replies", [1, 2, 3, 10])
@pytest.mark.parametrize("name", ["torch_batched", "compiled_closed_form"])
def test_plain_torch_agrees_with_float64(name: str, replies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # what the compiler makes of it is a matter for a GPU
    monkeypatch.setattr(torch, "compile", lambda compute, **_: compute)
    shape = Shape(groups=5, replies=replies, width=64)
    inputs = program.make_inputs("diversity", shape, 0)
    wanted = program.reference(inputs, "diversity", shape).step(inputs)
    built = getattr(peers, name)(inputs, "diversity", shape, CPU)
    for output, tensor in built.step({"e": inputs["e"].float()}).items():
        assert torch.allclose(tensor.double(), wanted[output], atol=1e-6)


@pytest.mark.gpu
def test_on_a_gpu_the_compiled_closed_form_agrees_with_float64() -> None:
    shape = Shape(groups=64, replies=16, width=384)
    inputs = program.make_inputs("diversity", shape, 0)
    wanted = program.reference(inputs, "diversity", shape).step(inputs)
    device = torch.device("cuda")
    found = peers.compiled_closed_form(inputs, "diversity", shape, device).step({"e": inputs["e"].float().to(device)})
    assert all(torch.allclose(found[name].double().cpu(), tensor, atol=1e-5) for name, tensor in wanted.items())


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "case"), [("generate_static_compiled", "replies"), ("generate_continuous", "replies")]
)
def test_on_a_gpu_the_library_generates_as_many_tokens_as_we_do(name: str, case: str) -> None:
    pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")
    assert step(name, case, torch.device("cuda"))["tokens"].shape == (6, size(case).tokens)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["liger", "unsloth"])
def test_on_a_gpu_other_trainers_make_a_step(name: str) -> None:
    pytest.importorskip({"liger": "liger_kernel"}.get(name, name), reason=f"needs {name}")
    assert torch.isfinite(step(name, "micro-step", torch.device("cuda"))["quality"]).all()
