"""The user's own text: its tokens, what is held out, and the batch of each step.

Tokens are those of `data.py`: the most frequent words of the training part, and single bytes for all others. A step's rows and dropout
mask follow from the seed and the step's number alone, so a resumed run sees what an unbroken one would have seen.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.resnet_bk import data
from phasewise_studies.resnet_bk.experts import DROPOUT
from phasewise_studies.resnet_bk.product.run_folder import Settings

# tensor cores take sizes in multiples of this
CLASSES_MULTIPLE = 8
# a held-out part beyond this is sampled evenly
MOST_WINDOWS = 512


@dataclass(frozen=True, kw_only=True)
class Text:
    """A file's training and held-out part, and its hash."""

    path: Path
    training: str
    held_out: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Tokens int64 (tokens,) on the device of training."""

    training: Tensor
    held_out: Tensor
    # of the held-out part, on average
    bytes_per_token: float


def read_text(path: Path, held_out: float) -> Text:
    """The text of a UTF-8 file; the last `held_out` of its characters are held out.

    Raises:
        UserError: it is empty, or not UTF-8.
    """
    content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: byte {error.start} is {content[error.start]:#04x}, which is not UTF-8; convert the file (iconv -t utf-8)"
        ) from error
    if not text:
        raise UserError(f"{path} is empty; give a text to learn from")
    cut = round(len(text) * (1 - held_out))
    return Text(path=path, training=text[:cut], held_out=text[cut:], sha256=hashlib.sha256(content).hexdigest())


def choose_words(text: Text, most: int) -> list[str]:
    """The words of the vocabulary, the most frequent first: at most `most` numbers with the bytes, and a multiple of 8 in all."""
    ranked = data.rank_words(data.split_words(text.training))
    size = min(most, data.BYTES + len(ranked))
    return ranked[: size - size % CLASSES_MULTIPLE - data.BYTES]


def make_corpus(text: Text, words: list[str], length: int, device: torch.device) -> Corpus:
    """Both parts as tokens.

    Raises:
        UserError: a part is shorter than one window of `length` tokens and the token after it.
    """
    parts = {}
    for name, part in (("training", text.training), ("held-out", text.held_out)):
        tokens = data.encode(data.split_words(part), words, data.BYTES + len(words))
        if len(tokens) < length + 2:
            raise UserError(
                f"{text.path}: its {name} part has {len(tokens)} tokens, one window with --length {length} takes {length + 2}; "
                "give a longer text, a smaller --length or another --held-out"
            )
        parts[name] = torch.from_numpy(tokens).long().to(device)
    density = len(text.held_out.encode()) / len(parts["held-out"])
    return Corpus(training=parts["training"], held_out=parts["held-out"], bytes_per_token=density)


def draw_batch(corpus: Corpus, settings: Settings, step: int) -> dict[str, Tensor]:
    """tokens, targets (batch, length), and keep (batch, layers, length, hidden), dropout's mask, of the `step`-th step."""
    device = corpus.training.device
    generator = torch.Generator(device).manual_seed(settings.seed * 1_000_003 + step)
    last = len(corpus.training) - settings.length
    starts = torch.randint(0, last, (settings.batch,), generator=generator, device=device)
    hidden = (settings.batch, settings.layers, settings.length, 2 * settings.width)
    drawn = torch.rand(hidden, generator=generator, device=device)
    return {**_cut(corpus.training, starts, settings.length), "keep": (drawn >= DROPOUT).to(torch.uint8)}


def cut_held_out(corpus: Corpus, length: int) -> dict[str, Tensor]:
    """tokens and targets (windows, length) of the held-out part: side by side, or `MOST_WINDOWS` of them evenly spread."""
    tokens = corpus.held_out
    starts = torch.arange(0, len(tokens) - length, length, device=tokens.device)
    if len(starts) > MOST_WINDOWS:
        starts = starts[torch.arange(MOST_WINDOWS, device=tokens.device) * len(starts) // MOST_WINDOWS]
    return _cut(tokens, starts, length)


def _cut(tokens: Tensor, starts: Tensor, length: int) -> dict[str, Tensor]:
    rows = tokens[starts[:, None] + torch.arange(length + 1, device=tokens.device)]
    return {"tokens": rows[:, :-1].contiguous(), "targets": rows[:, 1:].contiguous()}
