"""Generate text with an exported model of any kind: torch and transformers are what it needs.

    python generate.py --ids 1 2 3 --tokens 32 --replies 3        token ids in, token ids out
    python generate.py --prompt "Hello" --tokens 32               with the tokenizer beside it

A model that was trained on messages (generate.json says so) gets its prompt through the chat template; --raw gives it the text as
it is. This file is copied into an export of `--decode library` as generate.py; it imports nothing of the project that wrote it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch


def main() -> None:
    """Print one reply a line."""
    parser = argparse.ArgumentParser(description="Generate text with the exported model.")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--prompt", help="text")
    given.add_argument("--ids", type=int, nargs="+", help="token ids")
    parser.add_argument("--raw", action="store_true", help="the prompt as it is, without the chat template")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--replies", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.9, help="0 = always the most likely token")
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(__file__).parent
    tokenizer, ids = None, options.ids
    if options.prompt is not None:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        about, text = folder / "generate.json", options.prompt
        if about.exists() and json.loads(about.read_text())["chat"] and not options.raw:
            messages = [{"role": "user", "content": text}]
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if not ids:
            parser.error("--prompt holds no token; give a text")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = torch.tensor([ids])
    greedy = options.temperature == 0 or options.top_p == 0
    how = {} if greedy else {"temperature": options.temperature, "top_p": options.top_p, "top_k": 0}
    for reply in range(options.replies):
        torch.manual_seed(options.seed + reply)
        out = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=options.tokens, do_sample=not greedy, **how
        )
        found = out[0, len(ids) :].tolist()
        print(" ".join(map(str, found)) if tokenizer is None else tokenizer.decode(found, skip_special_tokens=True))


if __name__ == "__main__":
    main()
