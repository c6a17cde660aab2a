"""What a user can cure is one sentence with exit code 2: models, data, options and folders that do not fit."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")
pytest.importorskip("safetensors", reason="needs safetensors (pip install safetensors)")

from phasewise.records.errors import UserError
from phasewise_studies.polychromic.product.run_folder import read_options
from phasewise_studies.polychromic.product.texts import read_examples
from phasewise_studies.polychromic.product.train import main
from phasewise_studies.polychromic.tests.commands import SMALL, call, refuse


@pytest.mark.parametrize(
    ("line", "sentence"),
    [("{", "line 2: it is no JSON"), ('{"text": "x"}', 'line 2: found .*; write {"prompt"'),
     ('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}', "no chat template"),
     ('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null}]}', "line 2: a message's content is 'None'"),
     ('{"messages": [{"role": "user", "content": [{"type": "text"}]}, {"role": "assistant", "content": "b"}]}', "content is .*both text"),
     ('{"messages": [{"content": "a"}, {"content": "b"}]}', "role is 'None'")],
)  # fmt: skip
def test_a_wrong_line_is_named_with_what_is_allowed(given, tmp_path: Path, line: str, sentence: str) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"prompt": "the cat", "reply": "sat"}\n' + line + "\n")
    done = CliRunner().invoke(main, ["run", *given[:2], "--data", str(data), *SMALL, "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert re.search(sentence, done.output)


def test_what_is_missing_is_said_in_a_sentence(given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "empty").mkdir()
    end = (*SMALL, "--out", str(tmp_path / "run"))
    assert "tokenizer cannot be loaded" in refuse("run", "--model", str(tmp_path / "empty"), *given[2:], *end)
    assert "torch finds 0 NVIDIA GPUs" in refuse("run", *given, *end, "--device", "cuda")
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


def test_messages_that_the_template_refuses_are_named(given, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(given[1])
    tokenizer.chat_template = "{% if messages[0].role != 'user' %}{{ raise_exception('users begin') }}{% endif %}the {{ messages[0].content }}"
    data = tmp_path / "data.jsonl"
    for role in ("user", "system"):
        messages = [{"role": role, "content": "cat"}, {"role": "assistant", "content": "sat"}]
        data.write_text(json.dumps({"messages": messages}))
        if role == "user":
            found = read_examples(data, tokenizer, 2, 10)
            assert (found.chat, len(found.examples[0].prompt)) == (True, 2)
    with pytest.raises(UserError, match=r"line 1: the model's chat template refuses these messages \(users begin\)"):
        read_examples(data, tokenizer, 2, 10)


def test_an_encoder_that_is_no_bert_is_refused(given, tmp_path: Path) -> None:
    run = ("run", *given, *SMALL, "--out", str(tmp_path / "run"), "--encoder")
    assert "its model_type is 'llama', not 'bert'" in refuse(*run, given[1])
    folder = tmp_path / "encoder"
    shutil.copytree(given[1], folder)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    assert "it lacks 'num_hidden_layers'" in refuse(*run, str(folder))


def test_a_library_that_cannot_be_built_ahead_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    from phasewise_studies.polychromic.kernels import cuda_library, diversity_cuda

    monkeypatch.setattr(cuda_library.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", ["diversity_cuda"])
    with pytest.raises(SystemExit) as ended:
        diversity_cuda.main()
    assert ended.value.code == 2
    assert "libdiversity.so was not built: nvcc is not on the PATH" in capsys.readouterr().err


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


@pytest.mark.skipif(importlib.util.find_spec("flash_attn") is not None, reason="flash-attn is installed")
def test_attention_of_the_library_is_chosen_and_one_that_is_missing_is_named(given, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="needs peft (pip install peft)")
    options = (*given, *SMALL, "--steps", "1", "--decode", "library", "--attention")
    said = refuse("run", *options, "flash_attention_2", "--out", str(tmp_path / "flash"))
    assert "--attention flash_attention_2: " in said and "or take --attention sdpa" in said
    call("run", *options, "eager", "--out", str(tmp_path / "eager"))
    assert read_options(tmp_path / "eager")["attention"] == "eager"
