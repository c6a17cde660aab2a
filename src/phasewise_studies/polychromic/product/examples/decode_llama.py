"""Sampled replies of a Llama by the decode loop here and by transformers' `generate`: greedy tokens compared, both timed.

    python decode_llama.py                                                      # random weights, on the GPU if there is one
    python decode_llama.py --model folder --prompt "The fox" "A red cat" --replies 4 --tokens 100

Without --model the weights are random and tiny and the prompts are token ids. On an NVIDIA GPU both run in bfloat16, where two
tokens that are as likely but for rounding may change places; on a CPU in float32, where the tokens are the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from phasewise_studies.polychromic.model.decoder import Decoder
from phasewise_studies.polychromic.model.hugging_face import make_library_model, pack_library_model
from phasewise_studies.polychromic.model.replies import Replies, have_ended, is_live
from phasewise_studies.polychromic.model.sampling import GREEDY, Sampling
from phasewise_studies.polychromic.model.shared_cache import Sizes
from phasewise_studies.polychromic.model.weights import TINY, draw_weights
from phasewise_studies.polychromic.product.user_model import find_ends, open_tokenizer


def open_llama(folder: Path | None, prompts: list[str], dtype: torch.dtype) -> tuple[Any, Any, list[list[int]]]:
    """A model, its tokenizer and the prompts as token ids; without a folder a random model and no tokenizer."""
    if folder is None:
        drawn = torch.randint(3, TINY.vocabulary, (len(prompts), 8), generator=torch.Generator().manual_seed(0))
        model = make_library_model(draw_weights(TINY).to("cpu", dtype))
        model.config.eos_token_id = model.generation_config.eos_token_id = 2
        return model, None, drawn.tolist()
    from transformers import AutoModelForCausalLM

    tokenizer = open_tokenizer(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    return model, tokenizer, [tokenizer(text)["input_ids"] for text in prompts]


def wait_for(work: Callable[[], Any], device: torch.device) -> tuple[Any, float]:
    """What `work` gives at its second call, and its milliseconds: the first one builds and warms up."""
    work()
    started = time.perf_counter()
    found = work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return found, 1e3 * (time.perf_counter() - started)


def main() -> None:
    """Decode with both, compare, print one sampled reply a line."""
    parser = argparse.ArgumentParser(description="Replies of a Llama by the decode loop here and by transformers")
    parser.add_argument("--model", type=Path, help="Hugging Face folder of a Llama or Mistral")
    parser.add_argument("--prompt", nargs="+", default=["Once upon a time", "The weather today"])
    parser.add_argument("--replies", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=32)
    given = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model, tokenizer, ids = open_llama(given.model, given.prompt, dtype)
    ends = find_ends(model.to(device), None if tokenizer is None else tokenizer.eos_token_id)
    weights = pack_library_model(model)
    lengths = torch.tensor([len(one) for one in ids], device=device)
    prompts = torch.nn.utils.rnn.pad_sequence([torch.tensor(one) for one in ids], batch_first=True).to(device)
    sizes = Sizes(prompts=len(ids), replies=given.replies, prompt_length=prompts.shape[1], tokens=given.tokens)
    uniforms = torch.rand(sizes.rows, sizes.tokens, generator=torch.Generator().manual_seed(1)).to(device)

    def decode(sampling: Sampling) -> tuple[Replies, float]:
        decoder = Decoder(weights, sizes, sampling)
        for reason in decoder.fallbacks:
            print(f"fallback: {reason}")
        return wait_for(partial(decoder.generate, prompts, lengths, uniforms, partial(have_ended, ends=ends)), device)

    def generate() -> list[torch.Tensor]:
        # one prompt after another, since padding on the left is not what the loop here sees
        return [
            model.generate(
                prompt[None, :length], attention_mask=torch.ones_like(prompt[None, :length]), max_new_tokens=sizes.tokens,
                do_sample=False, num_return_sequences=1, eos_token_id=list(ends), pad_token_id=ends[0],
            )[0, length:]
            for prompt, length in zip(prompts, lengths.tolist(), strict=True)
        ]  # fmt: skip

    greedy, own_ms = decode(GREEDY)
    theirs, library_ms = wait_for(generate, device)
    same = sum(
        torch.equal(tokens[: len(wanted)], wanted)
        for tokens, wanted in zip(greedy.tokens_RT[:: sizes.replies], theirs, strict=True)
    )
    print(f"greedy: {same} of {len(ids)} prompts go on as transformers' do")
    print(f"here {own_ms:.0f} ms for {sizes.rows} replies, transformers {library_ms:.0f} ms for {len(ids)}")
    sampled, _ = decode(Sampling(temperature=0.9, top_p=0.9))
    for tokens, live in zip(sampled.tokens_RT, is_live(sampled.tokens_RT, ends), strict=True):
        found = tokens[live].tolist()
        print(found if tokenizer is None else tokenizer.decode(found, skip_special_tokens=True))


if __name__ == "__main__":
    main()
