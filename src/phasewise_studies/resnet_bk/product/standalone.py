"""Continue a text with the exported model beside this file: python generate.py "the prompt"

Needs NumPy and what infer.py beside it needs: torch, or ONNX Runtime. The model takes one token and the features of the one before.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

BYTES = 256
# a word with the blank before it, a run of other signs, or a run of white space
WORD = re.compile(r" ?\w+| ?[^\w\s]+|\s+")

# token, position, features (layers, 1, 2) -> logits (vocabulary,) and the next features
Step = Callable[[int, int, np.ndarray], tuple[np.ndarray, np.ndarray]]


def encode(text: str, words: Sequence[str]) -> list[int]:
    """Numbers from 256 up are words, the others bytes."""
    table = {word: BYTES + rank for rank, word in enumerate(words)}
    found: list[int] = []
    for word in WORD.findall(text):
        found.extend([table[word]] if word in table else word.encode())
    return found


def decode(tokens: Sequence[int], words: Sequence[str]) -> str:
    """The text of tokens; bytes that are no UTF-8 become the replacement sign."""
    parts = (bytes([token]) if token < BYTES else words[token - BYTES].encode() for token in tokens)
    return b"".join(parts).decode(errors="replace")


def continue_tokens(
    step: Step, prompt: Sequence[int], count: int, *, layers: int, length: int, choose: Callable[[np.ndarray], int]
) -> Iterator[int]:
    """`count` tokens after `prompt`, of which at least one is needed.

    The model knows `length` positions. Where they are used up, the last half of them is read again from position 0.
    """
    text = list(prompt)
    waiting = text[-length:]
    carried, position = np.zeros((layers, 1, 2), np.float32), 0
    for _ in range(count):
        if position + len(waiting) > length:
            carried, position = np.zeros_like(carried), 0
            waiting = text[-max(1, length // 2) :]
        for token in waiting:
            logits, carried = step(token, position, carried)
            position += 1
        waiting = [choose(logits)]
        text += waiting
        yield waiting[0]


def make_chooser(temperature: float, top_k: int, seed: int) -> Callable[[np.ndarray], int]:
    """The likeliest token at temperature 0, else one drawn among the `top_k` likeliest (0: among all)."""
    generator = np.random.default_rng(seed)

    def choose(logits: np.ndarray) -> int:
        if temperature == 0:
            return int(logits.argmax())
        scores = logits.astype(np.float64) / temperature
        if 0 < top_k < len(scores):
            scores[scores < np.partition(scores, -top_k)[-top_k]] = -np.inf
        odds = np.exp(scores - scores.max())
        return int(generator.choice(len(odds), p=odds / odds.sum()))

    return choose


def main() -> None:
    """Read the model beside this file and print the prompt with its continuation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=0, help="draw among that many tokens, 0: among all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # the script beside this one, which loads and calls the model
    import infer

    try:
        if not options.prompt or not 0 <= options.temperature < float("inf"):
            raise infer.Refused("the prompt needs a character, and --temperature a number from 0 up")
        folder = Path(__file__).resolve().parent
        manifest = infer.read_manifest(folder)
        words = json.loads((folder / "words.json").read_text())
        model = infer.load(folder, manifest)
    except infer.Refused as error:
        print(f"generate.py: {error}", file=sys.stderr)
        sys.exit(2)

    def step(token: int, position: int, carried: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        arrays = {"token": np.array([token]), "position": np.array([position]), "carried": carried}
        found = infer.read(infer.call(model, infer.place(arrays, manifest)), manifest)
        return found["logits"][0], found["features"]

    choose = make_chooser(options.temperature, options.top_k, options.seed)
    prompt = encode(options.prompt, words)
    sizes = manifest["sizes"]
    found = continue_tokens(step, prompt, options.tokens, layers=sizes["layers"], length=sizes["length"], choose=choose)
    print(options.prompt + decode(list(found), words))


if __name__ == "__main__":
    main()
