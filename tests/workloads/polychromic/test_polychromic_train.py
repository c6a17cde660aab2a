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
from torch.utils.checkpoint import checkpoint

pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")
pytest.importorskip("safetensors", reason="needs safetensors (pip install safetensors)")

from phasewise.records.errors import UserError
from phasewise.workloads.polychromic.run_folder import remember
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


def test_any_causal_model_trains_through_its_library_and_again_the_same(given, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="needs peft (pip install peft)")
    options = (*given, *SMALL, "--steps", "2", "--decode", "library", "--dropout", "0")
    output = call("run", *options, "--out", str(tmp_path / "run"))
    assert "replies by transformers" in output
    torch.manual_seed(99)
    call("run", *options, "--out", str(tmp_path / "again"), "--checkpointing")
    assert read_log(tmp_path / "run") == read_log(tmp_path / "again")
    call("export", "--out", str(tmp_path / "run"), "--into", str(tmp_path / "export"))
    assert (tmp_path / "export" / "model.safetensors").exists()


def test_checkpointing_changes_the_memory_only(given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from phasewise.workloads.polychromic import llama

    again = []
    monkeypatch.setattr(llama, "checkpoint", lambda *all_of_it, **how: again.append(1) or checkpoint(*all_of_it, **how))
    for name, option in (("without", ()), ("with", ("--checkpointing",))):
        call("run", *given, *SMALL, "--steps", "2", "--out", str(tmp_path / name), *option)
        assert bool(again) == bool(option)
    assert read_log(tmp_path / "with") == read_log(tmp_path / "without")


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


def refuse(*arguments: str) -> str:
    """The sentence of a command that a user can cure."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2, done.output
    return done.output


def test_what_is_missing_is_said_in_a_sentence(given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "empty").mkdir()
    end = (*SMALL, "--out", str(tmp_path / "run"))
    assert "tokenizer cannot be loaded" in refuse("run", "--model", str(tmp_path / "empty"), *given[2:], *end)
    assert "torch finds no NVIDIA GPU" in refuse("run", *given, *end, "--device", "cuda")
    assert "8192 positions, and 9000 tokens are wanted" in refuse("run", *given, *end, "--length", "9000")
    for option in ("--weight", "--rate", "--alpha", "--dropout", "--temperature", "--top-p"):
        assert "no finite number" in refuse("run", *given, *end, option, "nan")


def test_a_checkpoint_that_is_not_whole_is_named(given, tmp_path: Path) -> None:
    out = tmp_path / "run"
    call("run", *given, *SMALL, "--out", str(out), "--steps", "1")
    again = ("run", *given, *SMALL, "--out", str(out), "--steps", "2")
    options, whole = (out / "options.json").read_text(), (out / "checkpoint.pt").read_bytes()
    (out / "options.json").unlink()
    assert "options.json cannot be read" in refuse(*again)
    assert "options.json cannot be read" in refuse("export", "--out", str(out), "--into", str(tmp_path / "export"))
    (out / "options.json").write_text(options)
    for part in (whole[:5000], b"", b"text"):
        (out / "checkpoint.pt").write_bytes(part)
        assert "is cut off, or no checkpoint" in refuse(*again)
    (out / "checkpoint.pt").unlink()
    assert "has 1 steps, of which 0 were saved" in call(*again)
    assert "nothing to do: 2 steps are done and --steps is 1" in call(*again, "--steps", "1")


def test_what_a_run_was_started_with_does_not_depend_on_where_it_is_read(
    given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(given[1]).parent)
    options = {"model": Path("model"), "data": Path("data.jsonl"), "encoder": "own", "dtype": "auto", "out": tmp_path}
    assert remember(options, tmp_path, torch.device("cuda"))["dtype"] == "bfloat16"
    (tmp_path / "checkpoint.pt").touch()
    monkeypatch.chdir(tmp_path)
    again = {**options, "model": Path(given[1]), "data": Path(given[3])}
    kept = remember(again, tmp_path, torch.device("cpu"))
    assert (kept["dtype"], kept["model"]) == ("bfloat16", given[1])
    with pytest.raises(UserError, match="was started with dtype 'bfloat16', now it is 'float32'"):
        remember({**again, "dtype": "float32"}, tmp_path, torch.device("cpu"))


def test_adapters_that_are_lost_are_not_saved(given, tmp_path: Path) -> None:
    assert "the adapters are lost" in refuse(
        "run", *given, *SMALL, "--out", str(tmp_path), "--rate", "1e38", "--steps", "4", "--save-every", "9"
    )
    assert not (tmp_path / "checkpoint.pt").exists()


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
