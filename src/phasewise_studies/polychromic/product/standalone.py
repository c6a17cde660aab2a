"""Generate text with an exported model: torch and safetensors are all it needs.

    python generate.py --ids 1 2 3 --tokens 32 --replies 3        token ids in, token ids out
    python generate.py --prompt "Hello" --tokens 32               with a tokenizer.json beside it, and the package tokenizers

A model that was trained on messages (generate.json says so) gets its prompt through the chat template, by the package jinja2;
--raw gives it the text as it is.

This file is copied into every export as generate.py; it imports nothing of the project that wrote it.
"""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path

import torch
from torch.nn import functional


def load(folder: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    """The configuration and the weights in float32."""
    from safetensors.torch import load_file

    state = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    return json.loads((folder / "config.json").read_text()), state


def norm(x: torch.Tensor, gain: torch.Tensor, epsilon: float) -> torch.Tensor:
    """RMSNorm."""
    return gain * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)


def rotate(x: torch.Tensor, start: int, base: float) -> torch.Tensor:
    """Rotary embedding of (heads, tokens, features) from position `start` on."""
    half = x.shape[-1] // 2
    angle = torch.arange(start, start + x.shape[-2])[:, None] * base ** -(torch.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()), -1)


def forward(
    config: dict, state: dict[str, torch.Tensor], tokens: torch.Tensor, cache: dict, start: int
) -> torch.Tensor:
    """Logits of the token after `tokens`, which begin at position `start`; keys and values go into `cache`."""
    heads, groups, epsilon = config["num_attention_heads"], config["num_key_value_heads"], config["rms_norm_eps"]
    x = state["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        n = norm(x, state[layer + "input_layernorm.weight"], epsilon)
        q, k, v = (
            (n @ state[f"{layer}self_attn.{part}_proj.weight"].T).view(len(tokens), count, -1).transpose(0, 1)
            for part, count in (("q", heads), ("k", groups), ("v", groups))
        )
        if f"{layer}self_attn.q_norm.weight" in state:
            q = norm(q, state[f"{layer}self_attn.q_norm.weight"], epsilon)
            k = norm(k, state[f"{layer}self_attn.k_norm.weight"], epsilon)
        q, k = (rotate(part, start, config["rope_theta"]) for part in (q, k))
        if i in cache:
            k, v = torch.cat((cache[i][0], k), 1), torch.cat((cache[i][1], v), 1)
        cache[i] = (k, v)
        seen = torch.arange(k.shape[1]) <= start + torch.arange(len(tokens))[:, None]
        k, v = (part.repeat_interleave(heads // groups, 0) for part in (k, v))
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + out.transpose(0, 1).flatten(1) @ state[layer + "self_attn.o_proj.weight"].T
        n = norm(x, state[layer + "post_attention_layernorm.weight"], epsilon)
        gate = functional.silu(n @ state[layer + "mlp.gate_proj.weight"].T)
        x = x + (gate * (n @ state[layer + "mlp.up_proj.weight"].T)) @ state[layer + "mlp.down_proj.weight"].T
    return norm(x[-1], state["model.norm.weight"], epsilon) @ state["lm_head.weight"].T


def sample(logits: torch.Tensor, temperature: float, top_p: float, generator: torch.Generator) -> int:
    """One token of the nucleus; the most likely one for temperature 0 or top-p 0."""
    if temperature == 0 or top_p == 0:
        return int(logits.argmax())
    p, order = (logits / temperature).softmax(-1).sort(descending=True)
    kept = p * ((p.cumsum(-1) - p) < top_p)
    return int(order[torch.multinomial(kept, 1, generator=generator)])


def generate(
    config: dict,
    state: dict[str, torch.Tensor],
    prompt: list[int],
    count: int,
    temperature: float,
    top_p: float,
    seed: int,
) -> list[int]:
    """At most `count` tokens after `prompt`."""
    generator, cache = torch.Generator().manual_seed(seed), {}
    # one token, several, or None
    end = config.get("eos_token_id")
    ends = end if isinstance(end, list) else [end]
    logits = forward(config, state, torch.tensor(prompt), cache, 0)
    found: list[int] = []
    while len(found) < count:
        found.append(sample(logits, temperature, top_p, generator))
        if found[-1] in ends:
            break
        logits = forward(config, state, torch.tensor(found[-1:]), cache, len(prompt) + len(found) - 1)
    return found


def apply_template(folder: Path, text: str) -> str:
    """What the chat template makes of one message by the user: the same environment as in transformers."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise SystemExit(f"error: the chat template refuses the prompt: {message}; give --raw.")

    files = [folder / name for name in ("special_tokens_map.json", "tokenizer_config.json")]
    settings = {
        k: v for file in files if file.exists() for k, v in json.loads(file.read_text(encoding="utf-8")).items()
    }
    # a token is a text, or an object that holds one
    tokens = {k: v["content"] if isinstance(v, dict) else v for k, v in settings.items() if k.endswith("_token")}
    file = folder / "chat_template.jinja"
    template = file.read_text(encoding="utf-8") if file.exists() else settings["chat_template"]
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **how: json.dumps(value, ensure_ascii=False, **how)
    environment.globals |= {"raise_exception": refuse, "strftime_now": lambda how: datetime.now().strftime(how)}
    messages = [{"role": "user", "content": text}]
    return environment.from_string(template).render(messages=messages, add_generation_prompt=True, **tokens)


def main() -> None:
    """Print one reply a line."""
    parser = argparse.ArgumentParser(description="Generate text with the exported model.")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--prompt", help="text; needs tokenizer.json and the package tokenizers")
    given.add_argument("--ids", type=int, nargs="+", help="token ids")
    parser.add_argument("--raw", action="store_true", help="the prompt as it is, without the chat template")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--replies", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.9, help="0 = always the most likely token")
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(__file__).parent
    config, state = load(folder)
    tokenizer = None
    if options.prompt is not None:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        about = folder / "generate.json"
        chat = about.exists() and json.loads(about.read_text())["chat"] and not options.raw
        text = apply_template(folder, options.prompt) if chat else options.prompt
        prompt = tokenizer.encode(text, add_special_tokens=False).ids
        if not prompt:
            parser.error("--prompt holds no token; give a text")
    else:
        prompt = options.ids
    with torch.inference_mode():
        for reply in range(options.replies):
            ids = generate(
                config, state, prompt, options.tokens, options.temperature, options.top_p, options.seed + reply
            )
            print(" ".join(map(str, ids)) if tokenizer is None else tokenizer.decode(ids))


if __name__ == "__main__":
    main()
