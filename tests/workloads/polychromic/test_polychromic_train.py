"""A user's path: fine-tune a model folder with JSONL from the command line, stop, resume, export, generate."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")
pytest.importorskip("safetensors", reason="needs safetensors (pip install safetensors)")

from phasewise.workloads.polychromic.train import main, schedule
from workloads.polychromic.tiny_model import write_examples, write_tiny_model

SMALL = (
    "--micro", "2", "--accumulate", "1", "--tokens", "4", "--length", "16", "--prompt", "6", "--encoder", "own",
    "--save-every", "2", "--rate", "1e-3", "--device", "cpu",
)  # fmt: skip


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("given")
    model, data = write_tiny_model(folder / "model"), write_examples(folder / "data.jsonl")
    return "--model", str(model), "--data", str(data)


def call(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def read_log(out: Path) -> list[dict]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def test_a_run_in_two_parts_is_the_run_in_one_and_exports_a_model_that_the_library_reads(given, tmp_path: Path) -> None:
    call("run", *given, *SMALL, "--out", str(tmp_path / "whole"), "--steps", "4")
    parts = tmp_path / "parts"
    # the rates of the first two steps are those of four steps too
    call("run", *given, *SMALL, "--out", str(parts), "--steps", "2")
    call("run", *given, *SMALL, "--out", str(parts), "--steps", "4")
    saved = torch.load(tmp_path / "whole" / "checkpoint.pt", weights_only=True)
    assert read_log(parts) == read_log(tmp_path / "whole")
    assert int(saved["done"]) == 4
    call("export", "--out", str(tmp_path / "whole"), "--into", str(tmp_path / "export"))
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "export", dtype=torch.float32)
    tokens = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12]])
    exported = torch.export.load(tmp_path / "export" / "next_token.pt2").module()
    with torch.no_grad():
        assert torch.allclose(exported(tokens, torch.tensor([8])), model(input_ids=tokens).logits[:, -1], atol=1e-4)
    script = [sys.executable, str(tmp_path / "export" / "generate.py"), "--tokens", "4", "--temperature", "0"]
    printed = subprocess.run([*script, "--ids", "5", "6", "7"], capture_output=True, text=True, check=True).stdout
    greedy = model.generate(
        tokens[:, :3], attention_mask=torch.ones(1, 3, dtype=torch.long), max_new_tokens=4, do_sample=False
    )
    assert [int(word) for word in printed.split()] == greedy[0, 3:].tolist()


def test_a_run_that_is_interrupted_goes_on_where_it_stopped(given, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "phasewise.workloads.polychromic.train", "run", *given, *SMALL]
    command += ["--out", str(tmp_path / "stopped"), "--steps", "200"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 120
    # the log grows while it trains
    while not (tmp_path / "stopped" / "log.jsonl").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=120)[0]
    assert process.returncode == 0, printed
    assert "the same command goes on from here" in printed
    before = read_log(tmp_path / "stopped")
    assert 0 < len(before) < 200
    saved = int(torch.load(tmp_path / "stopped" / "checkpoint.pt", weights_only=True)["done"])
    assert saved == len(before)
    output = call("run", *given, *SMALL, "--out", str(tmp_path / "stopped"), "--steps", str(saved + 1))
    assert f"from step {saved}" in output
    assert read_log(tmp_path / "stopped")[:saved] == before


@pytest.mark.gpu
def test_on_a_gpu_a_run_without_dropout_learns_as_one_on_a_cpu_does(given, tmp_path: Path) -> None:
    options = (*given, *SMALL, "--dtype", "float32", "--dropout", "0", "--steps", "3")
    call("run", *options, "--out", str(tmp_path / "cpu"))
    output = call("run", *options, "--out", str(tmp_path / "gpu"), "--device", "cuda")
    assert "without a CUDA graph" not in output
    for found, exact in zip(read_log(tmp_path / "gpu"), read_log(tmp_path / "cpu"), strict=True):
        assert found["quality"] == pytest.approx(exact["quality"], rel=1e-3)


def test_any_causal_model_trains_through_its_library(given, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="needs peft (pip install peft)")
    output = call("run", *given, *SMALL, "--out", str(tmp_path / "run"), "--steps", "2", "--decode", "library")
    assert "replies by transformers" in output
    call("export", "--out", str(tmp_path / "run"), "--into", str(tmp_path / "export"))
    assert (tmp_path / "export" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [("{", "line 2: it is no JSON"), ('{"text": "x"}', 'line 2: found .*; write {"prompt"'), ('{"messages": [{"content": "a"}, {"content": "b"}]}', "no chat template")],
)  # fmt: skip
def test_a_wrong_line_is_named_with_what_is_allowed(given, tmp_path: Path, line: str, sentence: str) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"prompt": "the cat", "reply": "sat"}\n' + line + "\n")
    done = CliRunner().invoke(main, ["run", *given[:2], "--data", str(data), *SMALL, "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    import re

    assert re.search(sentence, done.output)


@pytest.mark.parametrize(("known", "ends"), [(3, (3,)), ([1, 3], (1, 3)), ([1, 2], (2, 1))])
def test_replies_end_where_the_model_says_and_the_tokenizer_chooses_among_its_ends(
    given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known, ends: tuple[int, ...]
) -> None:
    from phasewise.workloads.polychromic import trainer

    model, seen = write_tiny_model(tmp_path / "model", known), []
    monkeypatch.setattr(
        trainer, "train_step", lambda parts, _, batch: seen.append((parts.ends, batch)) or {"loss": 0, "quality": 0, "diversity": torch.zeros(1)}
    )  # fmt: skip
    call("run", "--model", str(model), *given[2:], *SMALL, "--out", str(tmp_path / "run"), "--steps", "1")
    ((found, batch),) = seen
    assert found == ends
    last = batch["tokens"][0][batch["is_reply"][0].bool()][-1]
    assert int(last) == ends[0]


def test_another_rank_in_the_same_folder_is_refused(given, tmp_path: Path) -> None:
    call("run", *given, *SMALL, "--out", str(tmp_path / "run"), "--steps", "1")
    done = CliRunner().invoke(main, ["run", *given, *SMALL, "--out", str(tmp_path / "run"), "--rank", "4"])
    assert done.exit_code == 2
    assert "was started with rank 16, now it is 4" in done.output


def test_the_rate_warms_up_and_falls_to_nothing() -> None:
    rates = [schedule(step, 100, 1.0) for step in range(100)]
    assert rates[0] < rates[1] < rates[2] == 1.0
    assert rates == sorted(rates[:3]) + sorted(rates[3:], reverse=True)
    assert rates[-1] < 0.01
