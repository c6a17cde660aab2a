"""Our own decode loop for any Llama- or Qwen3-shaped model: `Decoder(weights, sizes, sampling).generate(prompts, lengths, uniforms)`.

    model = AutoModelForCausalLM.from_pretrained(folder)
    weights = pack_library_model(model).to("cuda", torch.bfloat16)
    decoder = Decoder(weights, Sizes(prompts=4, replies=3, prompt_length=64, tokens=100), Sampling())
    uniforms = torch.rand(12, 100, device="cuda")
    replies = decoder.generate(prompts, lengths, uniforms, partial(have_ended, ends=(2,)))

with `Sizes` from shared_cache.py, `Sampling` from sampling.py, `have_ended` from replies.py and `pack_library_model` from
hugging_face.py; product/examples/decode_llama.py is the whole of it.

The prompts go through PyTorch once, each further token through five nodes of a CUDA graph a layer, then logits and sampler: a
token never waits for the host. The nodes are the raw CUDA of decode_layers.cu in bfloat16 and for models that it is written for
(a Qwen3 is not among them), else the Triton of decode_triton.py and sampler_triton.py, all of them in kernels/.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from phasewise.kit.graphs import capture
from phasewise.records.errors import UserError
from phasewise_studies.polychromic.kernels.decode_workspace import Launch, Launcher, adapt, make_workspace
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.replies import Replies
from phasewise_studies.polychromic.model.sampling import Sampling, sample
from phasewise_studies.polychromic.model.shared_cache import Sizes, begin, collect, generate_shared, make_buffers
from phasewise_studies.polychromic.model.weights import Weights

# of a head that one half of a rotary pair has at least: what a tensor-core product takes
FEWEST_FEATURES = 8


class Decoder:
    """Replies to a fixed number of prompts, at the device and in the dtype of the weights.

    bfloat16 or float32 on an NVIDIA GPU run the kernels, and building one captures its CUDA graphs; float64, a CPU, and shapes
    that `why_not` names run plain PyTorch. `fallbacks` says in words what did not run and why; none is an error. Memory: caches of
    L (P S + R T) K keys and values each, and R V float32 logits. Weights are read where they lie: copy new ones into them, then
    generate.
    """

    def __init__(self, weights: Weights, sizes: Sizes, sampling: Sampling, launch: Launch | None = None) -> None:
        self.weights, self.sizes, self.sampling = weights, sizes, sampling
        device = weights.embed_VD.device
        self.forward = Forward(weights=weights, sdpa=True)
        self.buffers = make_buffers(self.forward, sizes)
        self.launch = launch or Launch()
        reason = why_not(weights, self.launch)
        self.is_plain = bool(reason)
        self.fallbacks: tuple[str, ...] = (reason,) if reason else ()
        if self.is_plain:
            return
        self.launch = adapt(self.launch, weights, device)
        self.workspace = make_workspace(weights, sizes, device)
        example = {
            "prompts": torch.zeros(sizes.prompts, sizes.prompt_length, dtype=torch.long, device=device),
            "lengths": self.buffers.lengths_P.clone(),
            "uniforms": self.buffers.uniforms_RT.clone(),
        }
        self._raw, self.fallbacks = self._choose_raw()
        self._begin = capture(self._start, example)
        self._bursts = self._capture_bursts()
        reasons = {self._begin.reason, *(burst.reason for _, burst in self._bursts)} - {""}
        self.fallbacks += tuple(f"no CUDA graph: {reason}" for reason in sorted(reasons))

    def generate(
        self, prompts_PS: Tensor, lengths_P: Tensor, uniforms_RT: Tensor, stop: Callable[[Tensor], bool] | None = None
    ) -> Replies:
        """Replies to `sizes.prompts` prompts, R = P N rows of T tokens in memory of their own.

        prompts_PS: int64 token ids, padded on the right to `sizes.prompt_length` with any id of the vocabulary.
        lengths_P: int64, tokens of each prompt, at least 1.
        uniforms_RT: one number in [0, 1) a token, in any floating dtype; the same numbers give the same replies.
        stop: asked with the tokens so far (R, made) after each burst of `Launch.burst`, if given, and may wait for the device;
            `have_ended` of replies.py is one. The loop itself knows no end of text: without `stop` every reply has T tokens, and
            those after its first end, or after the stop, mean nothing (`is_live`).

        All of them lie on the device of the weights, in the sizes that the decoder was made for.

        Raises:
            UserError: they have other sizes.
        """
        buffers, sizes = self.buffers, self.sizes
        given = tuple(tuple(tensor.shape) for tensor in (prompts_PS, lengths_P, uniforms_RT))
        wanted = ((sizes.prompts, sizes.prompt_length), (sizes.prompts,), (sizes.rows, sizes.tokens))
        if given != wanted:
            raise UserError(
                f"prompts, lengths and uniforms have shapes {given}, and this decoder takes {wanted}; make one with other Sizes."
            )
        if self.is_plain:
            return generate_shared(
                self.forward, buffers, prompts_PS, lengths_P, uniforms_RT, self.sampling, sample,
                stop=stop, every=self.launch.burst,
            )  # fmt: skip
        uniforms = uniforms_RT.to(buffers.uniforms_RT.dtype)
        first_PV = self._begin.call({"prompts": prompts_PS, "lengths": lengths_P, "uniforms": uniforms})
        made = 1
        for count, burst in self._bursts:
            burst.call(self.workspace.at)
            made += count
            if stop is not None and stop(buffers.tokens_RT[:, :made]):
                break
        return collect(buffers, first_PV.clone())

    def decode(self) -> None:
        """One token for every row: what a graph holds, in the order in which its nodes run."""
        from phasewise_studies.polychromic.kernels.decode_launch import launch_token

        launch_token(self.weights, self.buffers, self.workspace, self.sizes, self.sampling, self.launch, raw=self._raw)

    def _choose_raw(self) -> tuple[Launcher | None, tuple[str, ...]]:
        """What launches a token in raw CUDA, or None for Triton's kernels, and why those run though the others suit."""
        from phasewise_studies.polychromic.kernels import decode_cuda
        from phasewise_studies.polychromic.kernels.cuda_library import NotBuilt

        if not self.launch.raw:
            return None, ()
        if self.weights.shape.normed_heads and self.weights.embed_VD.dtype is torch.bfloat16:
            return None, ("raw CUDA: it takes no norm of queries and keys (Qwen3), Triton kernels ran instead",)
        if not decode_cuda.suits(self.weights, self.sizes):
            return None, ()
        try:
            raw = decode_cuda.make_launcher(
                self.weights, self.buffers, self.workspace, self.sizes, self.sampling, self.launch.pdl
            )
        except NotBuilt as reason:
            return None, (f"raw CUDA: {reason}, Triton kernels ran instead",)
        return raw, ()

    @torch.no_grad()
    def _start(self, batch: dict[str, Tensor]) -> Tensor:
        from phasewise_studies.polychromic.kernels.sampler_triton import sample_on_device

        first_PV = begin(
            self.forward,
            self.buffers,
            batch["prompts"],
            batch["lengths"],
            batch["uniforms"],
            self.sampling,
            sample_on_device,
        )
        self.workspace.at.zero_()
        return first_PV

    def _capture_bursts(self) -> list[tuple[int, object]]:
        """Graphs of `burst` tokens, and one of the rest; replayed in order they make all tokens after the first."""
        rest = self.sizes.tokens - 1
        burst = min(self.launch.burst, max(rest, 1))
        graphs = {}
        for count in {burst, rest % burst} - {0}:
            # warming up must stay inside the caches
            self.workspace.at.zero_()
            graphs[count] = capture(partial(self._repeat, count), self.workspace.at, warmup=1)
            self.workspace.at.zero_()
        order = [burst] * (rest // burst) + [rest % burst]
        return [(count, graphs[count]) for count in order if count]

    def _repeat(self, count: int, _: Tensor) -> None:
        for _turn in range(count):
            self.decode()


def why_not(weights: Weights, launch: Launch) -> str:
    """Why plain PyTorch with shared caches has to decode this model here; "" if the kernels can."""
    shape, columns = weights.shape, launch.columns
    if weights.embed_VD.device.type != "cuda":
        return "no NVIDIA GPU, plain PyTorch with shared caches ran instead"
    if weights.embed_VD.dtype is torch.float64:
        return "no kernels in float64, plain PyTorch with shared caches ran instead"
    if (
        shape.width % columns
        or shape.inner % columns
        or shape.head & (shape.head - 1)
        or shape.head < 2 * FEWEST_FEATURES
    ):
        return f"width and inner size have to be multiples of {columns} and the head size a power of 2, plain PyTorch ran instead"
    return ""
