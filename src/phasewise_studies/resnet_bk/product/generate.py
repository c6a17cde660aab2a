"""Text from a run's checkpoint: the decode path of the phases, one complex number a layer carried from token to token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from phasewise_studies.resnet_bk.inference import build_inference
from phasewise_studies.resnet_bk.product.run_folder import load_parameters, read_settings, read_words
from phasewise_studies.resnet_bk.product.standalone import continue_tokens, decode, encode, make_chooser
from phasewise_studies.resnet_bk.switches import Switches

# the stack of the case `decode`
SWITCHES = Switches(streaming=True, graph=True)


def generate(
    run: Path,
    prompt: str,
    *,
    tokens: int,
    temperature: float,
    top_k: int,
    seed: int,
    device: torch.device,
    say: Callable[[str], None],
) -> str:
    """The continuation of `prompt`, which needs a character, by `tokens` tokens."""
    settings = read_settings(run)
    words = read_words(run, settings)
    parameters, _ = load_parameters(run, settings)
    blank = {"tokens": torch.zeros(1, 1, dtype=torch.long), "features": torch.zeros(settings.layers, 1, 2)}
    program = build_inference(SWITCHES, {**parameters, **blank}, "decode", settings.sizes(), device, ())
    for fallback in program.fallbacks:
        say(f"fallback: {fallback}")

    def step(token: int, position: int, carried: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raw = program.step(
            {
                "token": torch.tensor([token], device=device),
                "position": torch.tensor([position], device=device),
                "carried": torch.from_numpy(carried).to(device),
            }
        )
        return raw["logits"][0].cpu().numpy(), raw["features"].cpu().numpy()

    choose = make_chooser(temperature, top_k, seed)
    found = continue_tokens(
        step, encode(prompt, words), tokens, layers=settings.layers, length=settings.length, choose=choose
    )
    return decode(list(found), words)
