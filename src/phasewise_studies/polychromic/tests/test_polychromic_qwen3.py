"""Qwen3, the document's own kind of model, in the own loop and in both ways of learning, against transformers' Qwen3ForCausalLM."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn import functional

pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")

from phasewise import Shape
from phasewise.records.errors import UserError
from phasewise_studies.polychromic import program
from phasewise_studies.polychromic.audit import hidden_states_in_double, logits_in_double, widen
from phasewise_studies.polychromic.kernels.decode_cuda import is_written_for
from phasewise_studies.polychromic.model import sampling, shared_cache
from phasewise_studies.polychromic.model.decoder import Decoder
from phasewise_studies.polychromic.model.hugging_face import (
    generate_greedy,
    make_library_model,
    pack_library_model,
    read_shape,
)
from phasewise_studies.polychromic.model.joined_weights import join
from phasewise_studies.polychromic.model.llama import Forward, hidden_states, run_layers
from phasewise_studies.polychromic.model.lora import draw_flat, make_lora
from phasewise_studies.polychromic.model.replies import generate_growing
from phasewise_studies.polychromic.model.weights import QWEN3_8B, SMOLLM2, ModelShape, draw_large, draw_weights
from phasewise_studies.polychromic.phases import workload
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.tests.commands import SMALL, call, read_log, refuse
from phasewise_studies.polychromic.tests.fused_model import QWEN3
from phasewise_studies.polychromic.tests.tiny_model import write_tiny_model
from phasewise_studies.polychromic.trainer import token_log_probabilities
from phasewise_studies.polychromic.variants.generation import make_generator

CPU = torch.device("cpu")
SHAPES = [QWEN3, replace(QWEN3, tied=True)]
SIZES = shared_cache.Sizes(prompts=2, replies=1, prompt_length=11, tokens=8)


def draw_tokens(*size: int) -> torch.Tensor:
    return torch.randint(3, QWEN3.vocabulary, size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_logits_are_the_library_s_and_its_file_is_read_back(shape: ModelShape) -> None:
    weights = draw_weights(shape)
    model = make_library_model(weights)
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert shape.q_size != shape.width
    tokens = draw_tokens(2, 11)
    wanted = model(input_ids=tokens).logits
    for sdpa in (False, True):
        found = hidden_states(Forward(weights=weights, sdpa=sdpa), tokens) @ weights.head_VD.T
        assert torch.allclose(found, wanted, atol=1e-4)
    exact = logits_in_double(weights, hidden_states_in_double(widen(weights, None), tokens))
    assert torch.allclose(exact.float(), wanted, atol=1e-4)
    # without the norms of its heads it is another model
    assert not torch.allclose(
        hidden_states(Forward(weights=replace(weights, norm_q_LE=None)), tokens) @ weights.head_VD.T, wanted, atol=1e-1
    )
    packed = pack_library_model(model)
    assert packed.shape == shape
    assert all(torch.equal(packed.tensors()[name], tensor) for name, tensor in weights.tensors().items())


@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_greedy_tokens_of_every_way_of_decoding_are_the_library_s(shape: ModelShape) -> None:
    weights, tokens, lengths = draw_weights(shape), draw_tokens(2, 11), torch.tensor([11, 6])
    wanted = generate_greedy(make_library_model(weights), tokens, lengths, SIZES.tokens)
    forward, uniforms = Forward(weights=weights), torch.rand(2, SIZES.tokens)
    graphed = Switches(batching="window", sdpa=True, shared_cache=True, decode_graph=True)
    ways = [
        partial(generate_growing, forward, sampling=sampling.GREEDY, rows=2, ends=()),
        partial(shared_cache.generate_shared, forward, shared_cache.make_buffers(forward, SIZES), sampling=sampling.GREEDY, sampler=sampling.sample),
        Decoder(weights, SIZES, sampling.GREEDY).generate,
        make_generator(graphed, weights, None, SIZES, sampling.GREEDY).generate,
    ]  # fmt: skip
    for way in ways:
        assert torch.equal(way(tokens, lengths, uniforms_RT=uniforms).tokens_RT, wanted)


def test_the_8b_shape_has_the_parameters_of_its_model_card() -> None:
    norms = QWEN3_8B.layers * 2 * (QWEN3_8B.width + QWEN3_8B.head) + QWEN3_8B.width
    body = QWEN3_8B.layers * QWEN3_8B.layer_parameters
    assert body + 2 * QWEN3_8B.vocabulary * QWEN3_8B.width + norms == 8_190_735_360


@torch.no_grad()
def test_a_model_whose_layers_share_their_random_weights_is_a_model_as_any_other() -> None:
    large = draw_large(QWEN3)
    assert large.qkv_LOD.stride(0) == 0
    moved = large.to(CPU, torch.bfloat16)
    assert all(tensor.is_contiguous() for tensor in moved.tensors().values())
    assert torch.equal(moved.qkv_LOD[0], moved.qkv_LOD[1])
    model, tokens = make_library_model(large.to(CPU, torch.float64).to(CPU, torch.float32)), draw_tokens(2, 5)
    assert torch.allclose(
        hidden_states(Forward(weights=large), tokens) @ large.head_VD.T, model(input_ids=tokens).logits, atol=1e-4
    )


def test_the_document_s_case_runs_and_its_hours_are_those_of_its_steps() -> None:
    # as at `full`, with a small model: never 8 B on a CPU
    full = workload.cases["window-8b"].full
    assert (full.model, full.examples, full.replies, full.tokens, full.length) == ("qwen3-8b", 16, 3, 100, 512)
    assert workload.cases["window-8b"].tiny is None
    (phase,) = (one for one in workload.phases if one.name == "document-model")
    shape = Shape(model="tiny", encoder="tiny", examples=2, micro=1, replies=3, prompt=8, tokens=3, length=16, steps=2)
    switches = Switches(**{**phase.sets, "half": False})
    batch = program.make_inputs("window-8b", shape, 0)
    built = program.build(switches, batch, "window-8b", shape, CPU)
    found = program.audit(batch, built.outputs(built.step(built.place(batch))), "window-8b", shape)
    exact = program.reference(batch, "window-8b", shape).step(batch)
    assert found.keys() == exact.keys()
    assert {tensor.dtype for tensor in exact.values()} == {torch.float64}
    assert abs(float(found["quality_error"])) < 1e-5


@torch.no_grad()
def test_a_graph_of_the_plain_form_decodes_until_all_have_ended(monkeypatch) -> None:
    weights = draw_weights(QWEN3)
    # all logits are 0, so that the most likely token is the first
    weights = replace(weights, norm_D=torch.zeros_like(weights.norm_D))
    passes = []
    monkeypatch.setattr(shared_cache, "run_layers", lambda *given: passes.append(1) or run_layers(*given))
    switches = Switches(sdpa=True, shared_cache=True, decode_graph=True)
    sizes = replace(SIZES, tokens=20)
    for ends, made in (((0,), 1), ((5,), 20)):
        generator = make_generator(switches, weights, None, sizes, sampling.GREEDY, ends, ask_between_bursts=True)
        passes.clear()
        generator.generate(draw_tokens(2, 11), torch.tensor([11, 6]), torch.rand(2, 20))
        assert len(passes) == made


def test_the_raw_cuda_that_is_not_written_for_it_says_so() -> None:
    decoder = Decoder(draw_weights(QWEN3).to(CPU, torch.bfloat16), SIZES, sampling.GREEDY)
    raw, reasons = decoder._choose_raw()
    assert raw is None
    assert reasons == ("raw CUDA: it takes no norm of queries and keys (Qwen3), Triton kernels ran instead",)
    assert not is_written_for(replace(SMOLLM2, normed_heads=True), SIZES, 1 << 20)
    assert is_written_for(SMOLLM2, SIZES, 1 << 20)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_the_adapters_are_autograd_s_through_the_library(shape: ModelShape) -> None:
    peft = pytest.importorskip("peft", reason="needs peft (pip install peft)")
    weights = draw_weights(shape).to(CPU, torch.float64)
    lora = make_lora(shape, 3 * draw_flat(shape, 4), CPU, torch.float64, rank=4, alpha=8.0)
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=names, task_type="CAUSAL_LM")
    model = peft.get_peft_model(make_library_model(weights), config).double()
    adapters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert len(adapters) == len(lora.leaves)

    def find(key: str) -> torch.nn.Parameter:
        layer, projection, kind = key.split(".")
        (name,) = (name for name in adapters if f"layers.{layer}." in name and f"{projection}.lora_{kind}." in name)
        return adapters[name]

    with torch.no_grad():
        for key, leaf in lora.leaves.items():
            find(key).copy_(leaf)
    tokens = draw_tokens(3, 9)
    logits = model(input_ids=tokens).logits[:, :-1]
    weight = torch.linspace(-0.5, 1, 8, dtype=torch.float64)
    log_p = logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    (log_p * weight).sum().backward()
    exact = torch.cat([find(key).grad.flatten() for key in lora.leaves])
    plain = Forward(weights=weights, lora=lora, sdpa=True)
    for forward in (plain, replace(plain, joined=join(weights, lora)), replace(plain, checkpointing=True)):
        lora.gradient.zero_()
        found = token_log_probabilities(forward, tokens)
        (found * weight).sum().backward()
        # the library norms and turns in float32, whatever the model's precision
        assert torch.allclose(found, log_p, atol=1e-5)
        assert float((lora.gradient - exact).norm() / exact.norm()) < 1e-5
        assert float(functional.cosine_similarity(lora.gradient, exact, dim=0)) > 1 - 1e-9


def test_a_qwen3_trains_by_the_command_line_and_its_export_is_one(given, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = write_tiny_model(tmp_path / "model", shape=QWEN3)
    call("run", "--model", str(model), *given[2:], *SMALL, "--out", str(tmp_path / "run"), "--steps", "2")
    assert len(read_log(tmp_path / "run")) == 2
    into = tmp_path / "export"
    call("export", "--out", str(tmp_path / "run"), "--into", str(into))
    exported = AutoModelForCausalLM.from_pretrained(into, dtype=torch.float32)
    assert exported.config.model_type == "qwen3"
    prompt = draw_tokens(2, 5)
    with torch.no_grad():
        program = torch.export.load(into / "next_token.pt2").module()
        assert torch.allclose(program(prompt, torch.full((2,), 5)), exported(input_ids=prompt).logits[:, -1], atol=1e-4)
    script = [sys.executable, str(into / "generate.py"), "--tokens", "4", "--temperature", "0", "--ids"]
    printed = subprocess.run(
        [*script, *map(str, prompt[0].tolist())], capture_output=True, text=True, check=True
    ).stdout
    assert [int(word) for word in printed.split()] == generate_greedy(exported, prompt[:1], torch.tensor([5]), 4)[
        0
    ].tolist()


def test_other_families_and_a_qwen3_that_differs_are_one_sentence(given, tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config

    with pytest.raises(
        UserError, match=r"has attention_bias True; the own decode loop takes False only: use --decode library"
    ):
        read_shape(Qwen3Config(attention_bias=True))
    with pytest.raises(UserError, match="sliding_window 4096"):
        read_shape(Qwen3Config(use_sliding_window=True))
    model = write_tiny_model(tmp_path / "model")
    GPT2LMHeadModel(GPT2Config(vocab_size=193, n_embd=16, n_layer=1, n_head=2, eos_token_id=2)).save_pretrained(model)
    said = refuse("run", "--model", str(model), *given[2:], *SMALL, "--out", str(tmp_path / "run"))
    assert "model_type 'gpt2'; the own decode loop takes llama, mistral, qwen3 only: use --decode library" in said
