"""Text that is on every machine, Python's own library and its documentation, as token numbers.

A token is one of the most frequent words (with the blank before it, if there is one) or, for all others, a single byte:
numbers 0 to 255 are bytes, 256 and up are words by frequency. Nothing is lost, and any vocabulary from 256 up works.
"""

from __future__ import annotations

import collections
import json
import re
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from phasewise.model.data import data_folder

BYTES = 256
# the vocabularies of all shapes in phases.py: odd and even tiny ones, the document's, and the published one
VOCABULARIES = (509, 512, 30_000, 76_617)
# a word with the blank before it, a run of other signs, or a run of white space
WORD = re.compile(r" ?\w+| ?[^\w\s]+|\s+")
# folders of the library that are not there everywhere, or not prose or code of the library itself
LEFT_OUT = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__", "ensurepip"}
)
# enough for 200 steps at the document's size without repeating a window often
MOST_BYTES = 6_000_000


def read_text(most_bytes: int = MOST_BYTES) -> str:
    """The documentation's topics, then the library's modules in order of their names, cut at `most_bytes` characters."""
    from pydoc_data.topics import topics

    parts = [topics[name] for name in sorted(topics)]
    size = sum(map(len, parts))
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if size >= most_bytes:
            break
        if LEFT_OUT.isdisjoint(path.relative_to(root).parts) and "pydoc_data" not in path.parts:
            # a few modules are tests of other encodings
            parts.append(path.read_text(encoding="utf-8", errors="ignore"))
            size += len(parts[-1])
    return "\n".join(parts)[:most_bytes]


def split_words(text: str) -> list[str]:
    """Every character of `text` is in exactly one word."""
    return WORD.findall(text)


def rank_words(words: Iterable[str]) -> list[str]:
    """All words, the most frequent first; those of one frequency in order of the alphabet."""
    counts = collections.Counter(words)
    return [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def encode(words: Sequence[str], ranked: Sequence[str], vocabulary: int) -> np.ndarray:
    """Token numbers below `vocabulary` of `words`, int32 (tokens,)."""
    table = {word: BYTES + rank for rank, word in enumerate(ranked[: vocabulary - BYTES])}
    found: list[int] = []
    for word in words:
        number = table.get(word)
        if number is None:
            found.extend(word.encode())
        else:
            found.append(number)
    return np.asarray(found, dtype=np.int32)


def decode(tokens: Iterable[int], ranked: Sequence[str]) -> str:
    """The text of `tokens`: what `encode` was given."""
    parts = (bytes([token]) if token < BYTES else ranked[token - BYTES].encode() for token in map(int, tokens))
    return b"".join(parts).decode(errors="replace")


def write_tokens(folder: Path, text: str, vocabularies: Sequence[int] = VOCABULARIES) -> None:
    """`tokens-<vocabulary>.npy` of each vocabulary, `words.json`, and `bytes_per_token.json`."""
    words = split_words(text)
    ranked = rank_words(words)
    length = len(text.encode())
    density = {}
    for vocabulary in vocabularies:
        tokens = encode(words, ranked, vocabulary)
        np.save(folder / f"tokens-{vocabulary}.npy", tokens)
        density[str(vocabulary)] = length / len(tokens)
    (folder / "words.json").write_text(json.dumps(ranked[: max(vocabularies) - BYTES]))
    (folder / "bytes_per_token.json").write_text(json.dumps(density))


def load_tokens(vocabulary: int) -> np.ndarray:
    """All tokens of the text, int32, mapped from the file."""
    return np.load(data_folder() / f"tokens-{vocabulary}.npy", mmap_mode="r")


def bytes_per_token(vocabulary: int) -> float:
    """Bytes of text that a token stands for, on average."""
    return float(json.loads((data_folder() / "bytes_per_token.json").read_text())[str(vocabulary)])


def cut_windows(tokens: np.ndarray, starts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows of `length` tokens at `starts`, and the tokens that follow each: int64 (rows, length), twice."""
    rows = np.asarray(tokens)[starts[:, None] + np.arange(length + 1)[None, :]].astype(np.int64)
    return rows[:, :-1], rows[:, 1:]
