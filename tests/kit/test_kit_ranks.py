from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from phasewise.kit.ranks import Rank, average, find_rank, process_group, shard, wrap
from phasewise.workers.group import rank_environments
from phasewise.workers.isolated import run_isolated


def test_rows_are_dealt_without_gap_or_overlap() -> None:
    batch = {"x": torch.arange(11), "y": torch.arange(22).view(11, 2)}
    shares = [shard(batch, Rank(rank, 4, rank)) for rank in range(4)]
    assert [len(share["x"]) for share in shares] == [3, 3, 3, 2]
    assert torch.equal(torch.cat([share["x"] for share in shares]), batch["x"])
    assert torch.equal(torch.cat([share["y"] for share in shares]), batch["y"])
    assert shares[1]["x"].untyped_storage().data_ptr() == batch["x"].untyped_storage().data_ptr()


def test_batches_that_cannot_be_dealt_say_why() -> None:
    with pytest.raises(ValueError, match="a batch of 3 rows can't be dealt to 4 ranks"):
        shard({"x": torch.rand(3)}, Rank(0, 4))
    with pytest.raises(ValueError, match="same number of rows"):
        shard({"x": torch.rand(3), "y": torch.rand(4)}, Rank())


def test_with_one_rank_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    model = torch.nn.TransformerEncoderLayer(8, 2, 16)
    with process_group() as rank:
        assert rank == Rank() and rank.is_first
        assert wrap(model) is model
    values = {"x": torch.rand(3), "half": torch.ones(2, dtype=torch.bfloat16)}
    averaged = average(values)
    assert torch.equal(averaged["x"], values["x"]) and averaged["x"] is not values["x"]
    assert averaged["half"].dtype is torch.bfloat16


def test_the_rank_is_what_the_launcher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert find_rank() == Rank(rank=5, world=8, local=1)


def test_two_ranks_agree_on_the_gradient_of_the_whole_batch() -> None:
    (alone,) = run_ranks(1)
    together = run_ranks(2)
    assert [found["rows"] for found in together] == [4, 4] and alone["rows"] == 8
    for found in together:
        assert found["loss"] == pytest.approx(alone["loss"], rel=1e-10)
        assert found["gradient"] == pytest.approx(alone["gradient"], rel=1e-10)
        assert found["rank"] == 0.5


def run_ranks(world: int) -> list[dict[str, float]]:
    target = f"{Path(__file__).with_name('two_ranks.py')}:train"
    with ThreadPoolExecutor(world) as pool:
        found = list(pool.map(lambda around: run_isolated(target, None, environment=around), rank_environments(world)))
    assert all(isinstance(one, dict) for one in found), found
    return found
