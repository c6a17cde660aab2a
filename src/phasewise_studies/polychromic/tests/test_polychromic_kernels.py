"""The kernels of the decode loop, the sampler and the diversity: interpreted, compiled for GPUs that are not here, and run on one."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from phasewise_studies.polychromic.kernels import diversity_cuda
from phasewise_studies.polychromic.kernels.sampler_triton import choose_split
from phasewise_studies.polychromic.model import sampling, shared_cache
from phasewise_studies.polychromic.model.diversity import diversity_broadcast
from phasewise_studies.polychromic.tests import interpret_polychromic
from phasewise_studies.testing import Found, interpret_cases, mark_slow

INTS, FLOATS = "*i64", "*fp32"
# all kernels of the decode loop and the sampler, and what they do without the norms of Qwen3 or without a draw
QUICK = ("decode qwen3 sampled",)
SLOW = ("decode sampled", "decode greedy", "decode qwen3 greedy")
SAMPLES = ("sample peaked", "sample greedy tied")
MORE_SAMPLES = ("sample flat", "sample greedy", "sample all")
DIVERSITIES = ("diversity documented", "diversity pair", "diversity alone", "diversity odd")


@pytest.fixture(scope="module")
def interpreted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """What each case gave."""
    return interpret_cases(request, tmp_path_factory, interpret_polychromic.__name__)


@pytest.mark.parametrize("name", mark_slow(QUICK, SLOW))
def test_tokens_log_probabilities_and_caches_are_those_of_the_plain_loop(interpreted, name: str) -> None:
    case = interpreted[name]
    assert case["same"]
    assert case["log_probability"] < 1e-4
    assert case["cache"] < 1e-4


@pytest.mark.parametrize("name", mark_slow(SAMPLES, MORE_SAMPLES))
def test_the_sampler_needs_no_sort_to_pick_the_token_that_a_sort_picks(interpreted, name: str) -> None:
    assert interpreted[name]["same"]
    assert interpreted[name]["log_probability"] < 1e-5


@pytest.mark.parametrize("name", DIVERSITIES)
def test_diversity_agrees_with_all_pairs(interpreted, name: str) -> None:
    assert interpreted[name]["error"] < 1e-4


def test_every_case_is_tested() -> None:
    assert sorted((*QUICK, *SLOW, *SAMPLES, *MORE_SAMPLES, *DIVERSITIES)) == sorted(interpret_polychromic.CASES)


@pytest.mark.parametrize(
    ("rows", "vocabulary"), [(1, 49_152), (12, 49_152), (24, 49_152), (64, 49_152), (200, 49_152), (12, 193)]
)
def test_all_programs_of_a_row_can_run_at_once(rows: int, vocabulary: int) -> None:
    splits, block, warps = choose_split(rows, vocabulary, 132)
    assert splits == 1 or splits * rows <= 132
    assert splits * block >= vocabulary
    assert 4 <= warps <= 32


# what each kernel is given: pointers by type (H = 16-bit floats), and constants of SmolLM2's sizes
HEADS = {"H": 9, "G": 3, "E": 64, "REPLIES": 3}
CUT = {"ROWS": 16, "SPLIT": 8, "BLOCK": 32, "PRECISION": "ieee"}
# of Qwen3-8B, 16 examples of 3 replies
QWEN3 = {"H": 32, "G": 8, "E": 128, "REPLIES": 3}
TURNED = {name: "H" for name in ("out", "q", "k", "v", "before", "gain_q", "gain_k")}
SEEN = {
    **{name: "H" for name in ("attended", "q", "prompt_k", "prompt_v", "own_k", "own_v", "gain_q", "gain_k")},
    "cosines": FLOATS, "sines": FLOATS, "lengths": INTS, "at": INTS,
}  # fmt: skip
KERNELS = {
    "qkv_kernel": (
        {"q": "H", "own_k": "H", "own_v": "H", "x": FLOATS, "gain": "H", "w": "H", "cosines": FLOATS, "sines": FLOATS,
         "lengths": INTS, "at": INTS},
        {"D": 576, **HEADS, **CUT, "PAIRS": 16, "NORMED": False, "PDL": None}, 8,
    ),
    "qkv_kernel without a turn": (
        {"q": "H", "own_k": "H", "own_v": "H", "x": FLOATS, "gain": "H", "w": "H", "cosines": FLOATS, "sines": FLOATS,
         "lengths": INTS, "at": INTS},
        {"D": 4096, **QWEN3, **CUT, "ROWS": 64, "BLOCK": 64, "PAIRS": 16, "NORMED": True, "PDL": None}, 8,
    ),
    "attention_kernel": (
        SEEN, {**HEADS, "QUERIES": 16, "KEYS": 128, "PRECISION": "ieee", "NORMED": False, "PDL": None}, 4,
    ),
    "attention_kernel with a norm": (
        SEEN, {**QWEN3, "QUERIES": 16, "KEYS": 64, "PRECISION": "ieee", "NORMED": True, "PDL": None}, 4,
    ),
    "add_kernel of Qwen3-8B": (
        {"x": FLOATS, "inner": "H", "w": "H"},
        {"D": 4096, "K": 12_288, **CUT, "ROWS": 64, "BLOCK": 64, "COLUMNS": 16, "PDL": None}, 8,
    ),
    "add_kernel": ({"x": FLOATS, "inner": "H", "w": "H"}, {"D": 576, "K": 1536, **CUT, "COLUMNS": 16, "PDL": None}, 8),
    "gate_up_kernel": (
        {"inner": "H", "x": FLOATS, "gain": "H", "w": "H"}, {"D": 576, "F": 1536, **CUT, "COLUMNS": 16, "PDL": None}, 8
    ),
    "gate_up_kernel of Qwen3-8B": (
        {"inner": "H", "x": FLOATS, "gain": "H", "w": "H"},
        {"D": 4096, "F": 12_288, **CUT, "ROWS": 64, "BLOCK": 64, "COLUMNS": 16, "PDL": None}, 8,
    ),
    "logits_kernel of Qwen3-8B": (
        {"logits": FLOATS, "x": FLOATS, "gain": "H", "w": "H"},
        {"D": 4096, **CUT, "ROWS": 64, "BLOCK": 64, "COLUMNS": 64, "PDL": None}, 8,
    ),
    "logits_kernel": ({"logits": FLOATS, "x": FLOATS, "gain": "H", "w": "H"}, {"D": 576, **CUT, "COLUMNS": 64, "PDL": None}, 8),
    "embed_kernel": (
        {"x": FLOATS, "tokens": INTS, "embedding": "H", "at": INTS, "counters": "*i32"},
        {"D": 576, "ROWS": 16, "BLOCK": 128, "COUNTERS": 16, "PDL": None}, 8,
    ),
    "sample_kernel": (
        {"tokens": INTS, "chosen": FLOATS, "logits": FLOATS, "uniforms": FLOATS, "at": INTS, "scratch": FLOATS, "counters": "*i32"},
        {"BLOCK": 8192, "SPLITS": 8, "PDL": None}, 8,
    ),
    "diversity_kernel": (
        {"score": FLOATS, "marginals": FLOATS, "e": FLOATS}, {"NEEDS_REST": True, "REPLIES": 16, "WIDTH": 512}, 1
    ),
    "add_norm_kernel": (
        {"h": "H", "n": "H", "scale": FLOATS, "x": "H", "y": "H", "gain": "H"}, {"D": 576, "BLOCK": 1024, "HAS_Y": True}, 4
    ),
    "add_norm_backward_kernel": (
        {"dx": "H", "dn": "H", "dh": "H", "h": "H", "scale": FLOATS, "gain": "H"},
        {"D": 576, "BLOCK": 1024, "HAS_DH": True}, 4,
    ),
    "turn_kernel": (
        {**TURNED, "cosines": FLOATS, "sines": FLOATS},
        {"H": 9, "G": 3, "E": 64, "HEADS": 16, "PAIRS": 32, "NORMED": False, "BACK": True}, 2,
    ),
    # of Qwen3-8B
    "turn_kernel with a norm": (
        {**TURNED, "cosines": FLOATS, "sines": FLOATS},
        {"H": 32, "G": 8, "E": 128, "HEADS": 64, "PAIRS": 64, "NORMED": True, "BACK": False}, 8,
    ),
    "turn_kernel back with a norm": (
        {**TURNED, "cosines": FLOATS, "sines": FLOATS},
        {"H": 32, "G": 8, "E": 128, "HEADS": 64, "PAIRS": 64, "NORMED": True, "BACK": True}, 8,
    ),
    "gate_kernel": ({"a": "H", "gate_up": "H"}, {"BLOCK": 512}, 2),
    "gate_backward_kernel": ({"dgate_up": "H", "da": "H", "gate_up": "H"}, {"BLOCK": 512}, 2),
    "log_p_kernel": ({"log_p": FLOATS, "lse": FLOATS, "logits": "H", "targets": INTS}, {"V": 49_152, "BLOCK": 4096}, 8),
    "log_p_backward_kernel": ({"logits": "H", "dlog_p": FLOATS, "lse": FLOATS, "targets": INTS}, {"V": 49_152, "BLOCK": 4096}, 8),
}  # fmt: skip
OWNERS = [
    f"phasewise_studies.polychromic.kernels.{name}"
    for name in (
        "decode_triton", "sampler_triton", "diversity_triton", "norm_triton", "rotary_triton", "gate_triton", "loss_triton",
    )
]  # fmt: skip
# shared memory that a block may have: CUDA C programming guide, table of technical specifications
SHARED_MEMORY = {75: 65_536, 80: 166_912, 90: 232_448}


# the loops over the width of these are unrolled, and compile for half a minute: two rounds have the shared memory of all
UNROLLED = {
    "qkv_kernel without a turn": "D", "add_kernel of Qwen3-8B": "K", "gate_up_kernel of Qwen3-8B": "D", "logits_kernel of Qwen3-8B": "D",
}  # fmt: skip


def compile_kernel(name: str, capability: int, *, whole: bool = False):
    """Machine code of one kernel; of all rounds of its loop only if `whole`."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = name.split()[0]
    owner = next(m for m in map(importlib.import_module, OWNERS) if hasattr(m, function))
    kernel, (pointers, constants, warps) = getattr(owner, function), KERNELS[name]
    if name in UNROLLED and not whole:
        constants = {**constants, UNROLLED[name]: 2 * constants["SPLIT"] * constants["BLOCK"]}
    overlaps = capability >= 90
    constants = {key: overlaps if value is None else value for key, value in constants.items()}
    half = "*bf16" if capability >= 80 else "*fp16"
    floats = ("epsilon", "scale", "inverse_temperature", "top_p")
    signature = {
        n: "constexpr"
        if n in constants
        else pointers[n].replace("H", half)
        if n in pointers
        else "fp32"
        if n in floats
        else "i32"
        for n in kernel.arg_names
    }
    at = {n: (i,) for i, n in enumerate(kernel.arg_names)}
    aligned = {at[n]: [["tt.divisibility", 16]] for n in pointers}
    source = ASTSource(kernel, signature, {at[n]: value for n, value in constants.items()}, aligned)
    options = {"num_warps": warps}
    if overlaps and "PDL" in constants:
        options["launch_pdl"] = True
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_compiles_for_hopper_and_its_shared_memory_fits(name: str) -> None:
    compiled = compile_kernel(name, 90)
    assert len(compiled.asm["cubin"]) > 1000
    assert compiled.metadata.shared <= SHARED_MEMORY[90]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("qkv_kernel", 80), ("qkv_kernel without a turn", 80), ("attention_kernel", 80), ("attention_kernel with a norm", 80), ("sample_kernel", 75), ("diversity_kernel", 75),
        ("add_norm_kernel", 80), ("add_norm_backward_kernel", 80), ("turn_kernel", 80), ("turn_kernel back with a norm", 80), ("gate_kernel", 80),
        ("gate_backward_kernel", 80), ("log_p_kernel", 80), ("log_p_backward_kernel", 80),
    ],
)  # fmt: skip
def test_a_kernel_compiles_for_older_gpus(name: str, capability: int) -> None:
    compiled = compile_kernel(name, capability)
    assert compiled.metadata.shared <= SHARED_MEMORY[capability]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "capability"), [*((name, 90) for name in UNROLLED), ("qkv_kernel without a turn", 80)]
)
def test_a_whole_loop_has_the_shared_memory_of_two_rounds(name: str, capability: int) -> None:
    whole, short = (compile_kernel(name, capability, whole=whole) for whole in (True, False))
    assert len(whole.asm["cubin"]) > len(short.asm["cubin"])
    assert whole.metadata.shared == short.metadata.shared <= SHARED_MEMORY[capability]


def test_without_a_gpu_the_closed_form_answers_with_the_reason() -> None:
    assert "no NVIDIA GPU" in diversity_cuda.why_not("cpu")
    e = functional.normalize(torch.randn(2, 4, 16, generator=torch.Generator().manual_seed(0)), dim=-1)
    assert torch.allclose(diversity_cuda.diversity_cuda(e)[0], diversity_broadcast(e.double())[0].float(), atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("form", ["triton", "cuda"])
@pytest.mark.parametrize(
    ("groups", "n", "width"), [(1, 10, 384), (4096, 16, 384), (3, 2, 384), (5, 33, 100), (2, 1, 8)]
)
def test_on_a_gpu_diversity_agrees_with_all_pairs(form: str, groups: int, n: int, width: int) -> None:
    from phasewise_studies.polychromic.kernels.diversity_triton import diversity_triton
    from phasewise_studies.polychromic.model.diversity import diversity_closed

    generator = torch.Generator(device="cuda").manual_seed(0)
    e = functional.normalize(torch.randn(groups, n, width, device="cuda", generator=generator), dim=-1)
    compute = diversity_triton if form == "triton" else diversity_cuda.diversity_cuda
    for found, exact in zip(compute(e), diversity_closed(e.double()), strict=True):
        assert float((found - exact).abs().max()) < 1e-4


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("rows", "vocabulary", "top_p"),
    [(12, 49_152, 0.9), (24, 49_152, 0.5), (70, 49_152, 0.9), (3, 193, 0.0), (5, 1000, 1.0)],
)
def test_on_a_gpu_sampled_tokens_are_those_of_their_uniform_numbers(rows: int, vocabulary: int, top_p: float) -> None:
    from phasewise_studies.polychromic.kernels.sampler_triton import sample_on_device

    generator = torch.Generator(device="cuda").manual_seed(rows)
    for _ in range(5):
        logits = 3 * torch.randn(rows, vocabulary, device="cuda", generator=generator)
        uniforms = torch.rand(rows, device="cuda", generator=generator)
        tokens, _ = sample_on_device(logits, uniforms, sampling.Sampling(0.9, top_p))
        p = (logits.double() / 0.9).softmax(-1)
        assert float(sampling.misfit(p, tokens, uniforms.double(), top_p, 1e-5).max()) < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("pdl", [False, True])
@pytest.mark.parametrize("name", ["tiny", "smollm2", "qwen3"])
def test_on_a_gpu_greedy_tokens_in_float32_are_those_of_the_plain_loop_and_repeat(name: str, pdl: bool) -> None:
    from phasewise_studies.polychromic.kernels.decode_workspace import Launch
    from phasewise_studies.polychromic.model.decoder import Decoder
    from phasewise_studies.polychromic.model.llama import Forward
    from phasewise_studies.polychromic.model.replies import generate_growing
    from phasewise_studies.polychromic.model.weights import SHAPES, draw_weights

    shape = replace(SHAPES["tiny"], normed_heads=True) if name == "qwen3" else SHAPES[name]
    weights = draw_weights(shape).to("cuda", torch.float32)
    sizes = shared_cache.Sizes(prompts=2, replies=3, prompt_length=20, tokens=9)
    generator = torch.Generator().manual_seed(4)
    prompts = torch.randint(3, 193, (2, 20), generator=generator).cuda()
    lengths, uniforms = torch.tensor([20, 11]).cuda(), torch.rand(6, 9, generator=generator).cuda()
    decoder = Decoder(
        weights,
        sizes,
        sampling.GREEDY,
        Launch(block=16, keys=32, head_columns=32, pdl=pdl, burst=4),
    )
    assert not decoder.fallbacks
    with torch.no_grad():
        wanted = generate_growing(Forward(weights=weights), prompts, lengths, uniforms, sampling.GREEDY, 6)
    for _ in range(2):
        assert torch.equal(decoder.generate(prompts, lengths, uniforms).tokens_RT, wanted.tokens_RT)
