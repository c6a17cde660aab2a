"""The plain model, the caches, the adapters and the sampler against what is known of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from phasewise.records.errors import UserError
from phasewise_studies.polychromic.kernels.decode_workspace import Launch
from phasewise_studies.polychromic.model import replies, sampling, shared_cache
from phasewise_studies.polychromic.model.decoder import Decoder
from phasewise_studies.polychromic.model.diversity import (
    diversity_broadcast,
    diversity_closed,
    pairwise_matrix,
)
from phasewise_studies.polychromic.model.encoder import TINY_ENCODER, draw_encoder, encode, pack_encoder, unpack_encoder
from phasewise_studies.polychromic.model.llama import Forward, hidden_states, run_layers
from phasewise_studies.polychromic.model.lora import draw_flat, make_lora, merge
from phasewise_studies.polychromic.model.replies import (
    generate_growing,
    have_ended,
    is_live,
    join_replies,
    reply_logits,
)
from phasewise_studies.polychromic.model.weights import SMOLLM2, TINY, ModelShape, draw_weights, pack, unpack
from phasewise_studies.polychromic.product import standalone
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.variants.generation import make_generator

CPU = torch.device("cpu")
SIZES = shared_cache.Sizes(prompts=2, replies=3, prompt_length=9, tokens=5)


@pytest.fixture(scope="module")
def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(3, TINY.vocabulary, (2, 9), generator=generator)
    return prompts, torch.tensor([9, 4]), torch.rand(6, 5, dtype=torch.float64, generator=generator)


@pytest.fixture(scope="module")
def forward() -> Forward:
    weights = draw_weights(TINY).to(CPU, torch.float64)
    return Forward(weights=weights, lora=make_lora(TINY, draw_flat(TINY), CPU, torch.float64))


def test_smollm2_has_the_parameters_of_its_model_card() -> None:
    assert SMOLLM2.layers * SMOLLM2.layer_parameters + SMOLLM2.vocabulary * 576 + 61 * 576 == 134_515_008


@torch.no_grad()
def test_every_way_of_generating_gives_the_same_replies(forward: Forward, batch) -> None:
    chosen = sampling.Sampling()
    one = generate_growing(forward, *batch, chosen, 1)
    buffers = shared_cache.make_buffers(forward, SIZES)
    merged = merge(forward.weights, forward.lora)
    others = (
        generate_growing(forward, *batch, chosen, 3),
        generate_growing(forward, *batch, chosen, 6),
        shared_cache.generate_shared(forward, buffers, *batch, chosen, sampling.sample, stop=have_ended),
        Decoder(merged, SIZES, chosen).generate(*batch),
    )
    for other in others:
        assert torch.equal(other.tokens_RT, one.tokens_RT)
        assert torch.allclose(other.log_probabilities_RT, one.log_probabilities_RT, atol=1e-10)
        assert torch.allclose(other.first_PV, one.first_PV, atol=1e-10)


@torch.no_grad()
def test_log_probabilities_of_a_reply_are_those_of_one_pass_over_prompt_and_reply(forward: Forward, batch) -> None:
    prompts, lengths, _ = batch
    found = generate_growing(forward, *batch, sampling.Sampling(), 6)
    log_p = (reply_logits(forward, prompts, lengths, found.tokens_RT) / 0.9).log_softmax(-1)
    own = log_p.gather(-1, found.tokens_RT[..., None])[..., 0]
    live = is_live(found.tokens_RT)
    assert torch.allclose(own[live], found.log_probabilities_RT[live], atol=1e-10)


@pytest.mark.parametrize(("eos", "tokens"), [(0, 1), (2, SIZES.tokens)])
@pytest.mark.parametrize("switches", [{"shared_cache": True}, {"batching": "window"}])
@torch.no_grad()
def test_a_loop_ends_early_at_the_model_s_own_end_of_text(
    batch, monkeypatch, switches: dict, eos: int, tokens: int
) -> None:
    # all logits are 0, so that the most likely token is the first
    weights = draw_weights(TINY)
    weights = replace(weights, norm_D=torch.zeros_like(weights.norm_D))
    passes = []
    for module in (shared_cache, replies):
        monkeypatch.setattr(module, "run_layers", lambda *given: passes.append(1) or run_layers(*given))
    generator = make_generator(Switches(**switches), weights, None, SIZES, sampling.GREEDY, (eos,))
    assert not generator.generate(*batch).tokens_RT[:, :tokens].any()
    assert len(passes) == tokens


@torch.no_grad()
def test_a_user_s_replies_end_between_two_bursts_when_all_of_them_have(batch, monkeypatch) -> None:
    # all logits are 0, so that the most likely token is the first
    weights = draw_weights(TINY)
    weights = replace(weights, norm_D=torch.zeros_like(weights.norm_D))
    prompts, lengths, _ = batch
    sizes = replace(SIZES, tokens=20)
    asked = []
    decoder = Decoder(weights, sizes, sampling.GREEDY, Launch(burst=8))
    decoder.generate(
        prompts, lengths, torch.rand(6, 20), lambda tokens: asked.append(tokens.shape[1]) or len(asked) == 2
    )
    assert asked == [1, 9]
    with pytest.raises(UserError, match=r"this decoder takes \(\(2, 9\), \(2,\), \(6, 20\)\)"):
        decoder.generate(prompts, lengths, torch.rand(6, 1))
    passes = []
    monkeypatch.setattr(shared_cache, "run_layers", lambda *given: passes.append(1) or run_layers(*given))
    for ask, tokens in ((True, 1), (False, 20)):
        generator = make_generator(
            Switches(fused_decode=True), weights, None, sizes, sampling.GREEDY, (5, 0), ask_between_bursts=ask
        )
        passes.clear()
        generator.generate(prompts, lengths, torch.rand(6, 20))
        assert len(passes) == tokens


def test_replies_are_joined_to_their_prompts_without_the_padding() -> None:
    joined, live = join_replies(torch.tensor([[7, 8, 0]]), torch.tensor([2]), torch.tensor([[5, 2, 9]]))
    assert joined.tolist() == [[7, 8, 5, 2, 9, 0]]
    # 5 and the end of text count, what follows does not
    assert live.tolist() == [[False, True, True, False, False]]
    drawn = torch.tensor([[5, 7, 9]])
    for ends, counted in (((9,), 3), ((3, 7), 2), ((5, 9), 1), ((), 3)):
        assert int(join_replies(torch.tensor([[7, 8, 0]]), torch.tensor([2]), drawn, ends)[1].sum()) == counted


def test_the_model_is_the_library_s() -> None:
    pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")
    from phasewise_studies.polychromic.model.hugging_face import (
        generate_greedy,
        make_library_model,
        pack_library_model,
    )

    weights = draw_weights(TINY)
    model = make_library_model(weights)
    tokens = torch.randint(3, TINY.vocabulary, (2, 11), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = model(input_ids=tokens).logits
        found = hidden_states(Forward(weights=weights), tokens) @ weights.head_VD.T
        assert torch.allclose(found, wanted, atol=1e-4)
        lengths = torch.tensor([11, 6])
        mine = generate_growing(Forward(weights=weights), tokens, lengths, torch.rand(2, 8), sampling.GREEDY, 2)
    assert torch.equal(mine.tokens_RT, generate_greedy(model, tokens, lengths, 8))
    assert torch.equal(pack_library_model(model).qkv_LOD, weights.qkv_LOD)


def test_packing_and_unpacking_are_inverse() -> None:
    for shape in (TINY, ModelShape(layers=1, width=8, heads=2, kv_heads=1, head=4, inner=6, vocabulary=11, tied=False)):
        weights = draw_weights(shape)
        again = pack(shape, unpack(weights))
        assert all(torch.equal(again.tensors()[name], tensor) for name, tensor in weights.tensors().items())
    encoder = draw_encoder(TINY_ENCODER)
    again = pack_encoder(TINY_ENCODER, unpack_encoder(encoder))
    assert all(torch.equal(getattr(again, name), tensor) for name, tensor in vars(encoder).items() if name != "shape")


@pytest.mark.parametrize(
    "odd", [{"attention_bias": True}, {"mlp_bias": True}, {"hidden_act": "gelu"}, {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}]
)  # fmt: skip
def test_a_llama_with_other_layers_is_sent_to_its_library(odd: dict) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")
    from phasewise_studies.polychromic.model.hugging_face import read_shape

    assert read_shape(transformers.LlamaConfig()).heads == 32
    with pytest.raises(UserError, match="use --decode library"):
        read_shape(transformers.LlamaConfig(**odd))


def test_tensors_that_a_llama_has_not_are_refused() -> None:
    state = unpack(draw_weights(TINY))
    # both are in files of plain Llamas
    state |= {"lm_head.weight": state["model.embed_tokens.weight"]}
    state |= {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(8)}
    pack(TINY, state)
    with pytest.raises(
        UserError, match=r"has, .* 1 tensors, model.layers.0.self_attn.q_proj.bias .* use --decode library"
    ):
        pack(TINY, state | {"model.layers.0.self_attn.q_proj.bias": torch.zeros(48)})
    with pytest.raises(UserError, match=r"lacks 1 tensors, model.norm.weight"):
        pack(TINY, {name: tensor for name, tensor in state.items() if name != "model.norm.weight"})


def test_the_encoder_is_the_library_s() -> None:
    pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")
    from phasewise_studies.polychromic.model.hugging_face import make_encoder_model

    weights = draw_encoder(TINY_ENCODER)
    tokens = torch.randint(3, 211, (2, 9), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([9, 5])
    mask = (torch.arange(9) < lengths[:, None]).long()
    with torch.no_grad():
        hidden = make_encoder_model(weights)({"input_ids": tokens, "attention_mask": mask})["token_embeddings"]
    mean = (hidden * mask[..., None]).sum(1) / lengths[:, None]
    assert torch.allclose(encode(weights, tokens, lengths), mean / mean.norm(dim=-1, keepdim=True), atol=2e-6)


def test_a_sampled_token_fits_and_its_neighbour_does_not() -> None:
    p = torch.tensor([[0.1, 0.4, 0.3, 0.2]], dtype=torch.float64)
    u = torch.tensor([0.5], dtype=torch.float64)
    # of the nucleus {1, 2, 3}, u = 0.5 of 0.9 falls into the second
    assert sampling.pick(p, u, 0.85).item() == 2
    assert sampling.misfit(p, torch.tensor([2]), u, 0.85, 1e-9).item() == 0
    assert sampling.misfit(p, torch.tensor([1]), u, 0.85, 1e-9).item() == pytest.approx(0.5 - 4 / 9)
    assert sampling.misfit(p, torch.tensor([0]), u, 0.85, 1e-9).item() == 1
    # where nothing is cut, a probability that float64 sums lose is kept
    tail = torch.tensor([[1e-26, 1.0]], dtype=torch.float64)
    assert sampling.misfit(tail, torch.tensor([0]), torch.zeros(1, dtype=torch.float64), 1.0, 1e-9).item() == 0


@pytest.mark.parametrize("n", [2, 3, 7])
def test_the_closed_form_is_the_mean_of_all_pairs_and_its_marginals_those_without_each(n: int) -> None:
    e = torch.nn.functional.normalize(torch.randn(4, n, 12, dtype=torch.float64), dim=-1)
    for found, exact in zip(diversity_closed(e), diversity_broadcast(e), strict=True):
        assert torch.allclose(found, exact, atol=1e-12)


def test_the_matrix_of_the_document_s_own_test_is_the_library_s_formula() -> None:
    e = torch.randn(10, 384, generator=torch.Generator().manual_seed(0))
    unit = e / e.norm(dim=-1, keepdim=True)
    assert torch.allclose(pairwise_matrix(unit), 1 - unit @ unit.T, atol=1e-4)


@pytest.mark.parametrize(("end", "count"), [(None, 4), (0, 1), ([1, 0], 1), (1, 4)])
def test_the_standalone_script_stops_at_any_end_of_text(monkeypatch: pytest.MonkeyPatch, end, count: int) -> None:
    monkeypatch.setattr(standalone, "forward", lambda *given: torch.tensor([2.0, 1.0]))
    assert standalone.generate({"eos_token_id": end}, {}, [1], 4, 0.9, 0.0, 0) == [0] * count
