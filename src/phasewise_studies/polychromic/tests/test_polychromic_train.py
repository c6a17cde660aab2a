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
from torch.utils.checkpoint import checkpoint

pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")
pytest.importorskip("safetensors", reason="needs safetensors (pip install safetensors)")

from phasewise.records.errors import UserError
from phasewise_studies.polychromic.product.run_folder import remember
from phasewise_studies.polychromic.product.texts import read_examples
from phasewise_studies.polychromic.product.train import schedule
from phasewise_studies.polychromic.tests.commands import SMALL, call, read_log
from phasewise_studies.polychromic.tests.tiny_model import write_tiny_model


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
    for rows, length in ((1, 8), (3, 5), (2, 13), (1, 1)):
        some = torch.randint(3, 99, (rows, length), generator=torch.Generator().manual_seed(rows))
        with torch.no_grad():
            wanted = model(input_ids=some).logits[:, -1]
            assert torch.allclose(exported(some, torch.full((rows,), length)), wanted, atol=1e-4)
    script = [sys.executable, str(tmp_path / "export" / "generate.py"), "--tokens", "4", "--temperature", "0"]
    printed = subprocess.run([*script, "--ids", "5", "6", "7"], capture_output=True, text=True, check=True).stdout
    greedy = model.generate(
        tokens[:, :3], attention_mask=torch.ones(1, 3, dtype=torch.long), max_new_tokens=4, do_sample=False
    )
    assert [int(word) for word in printed.split()] == greedy[0, 3:].tolist()


def test_a_run_that_is_interrupted_goes_on_where_it_stopped(given, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "phasewise_studies.polychromic.product.train",
        "run",
        *given,
        *SMALL,
    ]
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
    from phasewise_studies.polychromic.model import llama

    again = []
    monkeypatch.setattr(llama, "checkpoint", lambda *all_of_it, **how: again.append(1) or checkpoint(*all_of_it, **how))
    for name, option in (("without", ()), ("with", ("--checkpointing",))):
        call("run", *given, *SMALL, "--steps", "2", "--out", str(tmp_path / name), *option)
        assert bool(again) == bool(option)
    assert read_log(tmp_path / "with") == read_log(tmp_path / "without")


@pytest.mark.parametrize(("known", "ends"), [(3, (3,)), ([1, 3], (1, 3)), ([1, 2], (2, 1))])
def test_replies_end_where_the_model_says_and_the_tokenizer_chooses_among_its_ends(
    given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known, ends: tuple[int, ...]
) -> None:
    from phasewise_studies.polychromic import trainer

    model, seen = write_tiny_model(tmp_path / "model", known), []
    monkeypatch.setattr(
        trainer, "train_step", lambda parts, _, batch: seen.append((parts.ends, batch)) or {"loss": 0, "quality": 0, "diversity": torch.zeros(1)}
    )  # fmt: skip
    call("run", "--model", str(model), *given[2:], *SMALL, "--out", str(tmp_path / "run"), "--steps", "1")
    ((found, batch),) = seen
    assert found == ends
    last = batch["tokens"][0][batch["is_reply"][0].bool()][-1]
    assert int(last) == ends[0]


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


def test_examples_are_cut_on_overflow_only_and_lines_end_at_newlines(given, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(given[1])
    data = tmp_path / "data.jsonl"
    lines = [
        ("the cat", "sat on a mat and saw"),
        ("", "the\u2028cat\x85sat"),
        ("the " * 9, "cat " * 4),
        ("the " * 9, "cat " * 9),
    ]
    data.write_text(
        "".join(json.dumps({"prompt": a, "reply": b}, ensure_ascii=False) + "\r\n" for a, b in lines), encoding="utf-8"
    )
    found = read_examples(data, tokenizer, 2, 10)
    # prompt, then reply with its end; of the third the prompt is cut, of the fourth both
    assert [(len(one.prompt), len(one.reply)) for one in found.examples] == [(2, 7), (1, 4), (5, 5), (5, 5)]
    assert [one.reply[-1] == 2 for one in found.examples] == [True, True, True, False]
    assert (found.cut, found.chat) == (2, False)
    said = call(
        "run", *given[:2], "--data", str(data), *SMALL, "--length", "10", "--out", str(tmp_path / "run"), "--steps", "1"
    )
    assert "2 examples are longer than --length 10" in said


def test_the_rate_warms_up_and_falls_to_nothing() -> None:
    rates = [schedule(step, 100, 1.0) for step in range(100)]
    assert rates[0] < rates[1] < rates[2] == 1.0
    assert rates == sorted(rates[:3]) + sorted(rates[3:], reverse=True)
    assert rates[-1] < 0.01
