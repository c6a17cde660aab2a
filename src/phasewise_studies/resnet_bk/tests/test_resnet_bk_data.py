from __future__ import annotations

import numpy as np
import pytest

from phasewise_studies.resnet_bk import data, program
from phasewise_studies.resnet_bk.tests.resnet_bk_cases import TINY

TEXT = "def f(x):\n    return x + 1  # naïve\n\n" * 3


@pytest.mark.parametrize("vocabulary", [256, 259, 300])
def test_encoding_loses_nothing_at_any_vocabulary(vocabulary: int) -> None:
    words = data.split_words(TEXT)
    ranked = data.rank_words(words)
    tokens = data.encode(words, ranked, vocabulary)
    assert tokens.max() < vocabulary
    assert data.decode(tokens, ranked) == TEXT


def test_words_are_ranked_by_frequency_then_alphabet() -> None:
    assert data.rank_words(["b", "a", "c", "c"]) == ["c", "a", "b"]


def test_the_text_begins_with_the_documentation_and_goes_on_with_the_library() -> None:
    short, longer = data.read_text(1000), data.read_text(2_000_000)
    assert longer.startswith(short) and len(short) == 1000
    assert "import" in longer[1_500_000:]


def test_targets_are_the_tokens_that_follow() -> None:
    tokens, targets = data.cut_windows(np.arange(100, dtype=np.int32), np.array([3, 50]), 5)
    assert tokens.tolist() == [[3, 4, 5, 6, 7], [50, 51, 52, 53, 54]]
    assert targets.tolist() == [[4, 5, 6, 7, 8], [51, 52, 53, 54, 55]]


def test_inputs_differ_by_seed_and_parameters_do_not() -> None:
    one, again, other = (program.make_inputs("documented", TINY, seed) for seed in (0, 0, 1))
    assert one["tokens"].equal(again["tokens"]) and one["keep"].equal(again["keep"])
    assert not one["tokens"].equal(other["tokens"])
    assert one["head.weight"].equal(other["head.weight"])
    # dropout of 0.1
    assert 0.88 < float(one["keep"].double().mean()) < 0.92


def test_fewer_bytes_a_token_where_the_vocabulary_is_smaller() -> None:
    assert 1 < data.bytes_per_token(509) <= data.bytes_per_token(512) < 4
