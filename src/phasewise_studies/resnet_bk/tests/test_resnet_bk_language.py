"""A text of one's own: train, stop, go on, generate, export, as the README has it; and what each wrong input says."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from phasewise_studies.resnet_bk import data
from phasewise_studies.resnet_bk.inference import Forward
from phasewise_studies.resnet_bk.model import Ways, make_model
from phasewise_studies.resnet_bk.product import corpus, export, language, run_folder, standalone
from phasewise_studies.resnet_bk.product.run_folder import CHECKPOINT, LOG, SETTINGS, WORDS
from phasewise_studies.testing import RIGHT

STUDY = Path(language.__file__).parents[1]
MODULE = "phasewise_studies.resnet_bk.product.language"
SMALL = ["--vocabulary", "512", "--width", "16", "--layers", "2", "--length", "16", "--batch", "8", "--device", "cpu"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "own.txt"
    path.write_text("\n".join(topics[name] for name in sorted(topics))[:60_000])
    return path


@pytest.fixture(scope="module")
def run(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve steps without a break, a checkpoint every five."""
    out = tmp_path_factory.mktemp("runs") / "run"
    call("train", text, "--out", out, *SMALL, "--steps", 12, "--save-every", 5)
    return out


def call(*arguments: object) -> None:
    """The command in this process."""
    before, handler = sys.argv, signal.getsignal(signal.SIGINT)
    sys.argv = ["language.py", *map(str, arguments)]
    try:
        language.main()
    finally:
        sys.argv = before
        signal.signal(signal.SIGINT, handler)


def refuse(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The sentence of a call that ends with 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        call(*arguments)
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


def test_a_run_keeps_what_it_says_and_nothing_pickled(run: Path) -> None:
    assert sorted(path.name for path in run.iterdir()) == sorted([CHECKPOINT, LOG, SETTINGS, WORDS])
    lines = [json.loads(line) for line in (run / LOG).read_text().splitlines()]
    assert [line["step"] for line in lines] == [5, 10, 12]
    assert lines[-1]["held_out"] < lines[0]["held_out"] and lines[-1]["held_out_bits_per_byte"] < 8
    with safe_open(run / CHECKPOINT, framework="pt") as file:
        assert file.metadata() == {"step": "12"}


def test_stopping_and_going_on_changes_no_bit(text: Path, run: Path, tmp_path: Path) -> None:
    """In a process of its own, stopped by the signal that Ctrl-C sends, wherever that finds it."""
    out = tmp_path / "broken"
    command = [sys.executable, "-m", MODULE, "train", str(text), "--out", str(out), *SMALL, "--save-every", "1"]
    process = subprocess.Popen([*command, "--steps", "12"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 2:"):
            process.send_signal(signal.SIGINT)
            break
    rest = process.stdout.read()
    assert process.wait(60) == 0 and "stopped; the same command goes on from here" in rest
    with safe_open(out / CHECKPOINT, framework="pt") as file:
        assert 2 <= int(file.metadata()["step"]) < 12
    # lines of steps that no checkpoint holds are done again
    with (out / LOG).open("a") as log:
        log.write('{"step": 11}\n')
    call("train", text, "--out", out, *SMALL, "--save-every", 1, "--steps", 12)
    assert [json.loads(line)["step"] for line in (out / LOG).read_text().splitlines()] == list(range(1, 13))
    assert (out / CHECKPOINT).read_bytes() == (run / CHECKPOINT).read_bytes()


def test_float16_goes_on_with_its_scaler(text: Path, tmp_path: Path) -> None:
    for steps in (2, 3):
        call("train", text, "--out", tmp_path / "half", *SMALL, "--precision", "float16", "--steps", steps)
        saved, done = run_folder.load(tmp_path / "half")
        assert done == steps and saved["scaler/growth_tracker"] == steps and saved["scaler/scale"] == 2.0**16


def test_the_held_out_loss_is_the_models_on_the_end_of_the_text(text: Path, run: Path) -> None:
    settings = run_folder.read_settings(run)
    words = run_folder.read_words(run, settings)
    parameters, _ = run_folder.load_parameters(run, settings)
    end = text.read_text()[round(60_000 * 0.95) :]
    tokens = torch.from_numpy(data.encode(data.split_words(end), words, settings.vocabulary)).long()
    rows = torch.stack([tokens[at : at + 17] for at in range(0, len(tokens) - 16, 16)])
    logits = make_model(settings.sizes(), Ways(), parameters, torch.device("cpu")).logits(rows[:, :-1])
    loss = float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()))
    told = json.loads((run / LOG).read_text().splitlines()[-1])
    assert told["held_out"] == pytest.approx(loss, rel=1e-5)
    bits = loss / np.log(2) * len(tokens) / len(end.encode())
    assert told["held_out_bits_per_byte"] == pytest.approx(bits, rel=1e-5)


def test_the_likeliest_continuation_is_the_full_models(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("generate", run, "--prompt", "The statement", "--tokens", 10, "--temperature", 0, "--device", "cpu")
    printed = capsys.readouterr().out.removesuffix("\n")
    settings = run_folder.read_settings(run)
    words = run_folder.read_words(run, settings)
    parameters, _ = run_folder.load_parameters(run, settings)
    model = Forward(make_model(settings.sizes(), Ways(), parameters, torch.device("cpu")))
    prompt = tokens = standalone.encode("The statement", words)
    assert len(tokens) + 10 <= settings.length
    with torch.no_grad():
        for _ in range(10):
            tokens = [*tokens, int(model(torch.tensor([tokens]))[0, -1].argmax())]
    assert printed == "The statement" + standalone.decode(tokens[len(prompt) :], words)


def test_a_text_longer_than_the_positions_goes_on_from_its_last_half() -> None:
    seen: list[tuple[int, int]] = []

    def step(token: int, position: int, carried: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert (position == 0) == (not carried.any())
        seen.append((token, position))
        return np.eye(20)[token + 1], carried + 1

    found = standalone.continue_tokens(step, [1, 2], 6, layers=1, length=4, choose=standalone.make_chooser(0, 0, 0))
    assert list(found) == [3, 4, 5, 6, 7, 8]
    assert seen == [(1, 0), (2, 1), (3, 2), (4, 3), (4, 0), (5, 1), (6, 2), (7, 3)][: len(seen)]


def test_the_chooser_draws_among_the_likeliest() -> None:
    logits = np.array([0.0, 3.0, 2.0, -1.0])
    drawn = [standalone.make_chooser(1.0, 2, seed)(logits) for seed in range(50)]
    assert set(drawn) == {1, 2} and drawn.count(1) > drawn.count(2)
    assert standalone.make_chooser(0, 0, 0)(logits) == 1


def test_the_script_has_the_tokens_of_the_study() -> None:
    sentence = "def naïve(x):\n    return  x ** 2  # “quoted”"
    words = data.rank_words(data.split_words("def return x def"))
    tokens = standalone.encode(sentence, words)
    assert tokens == data.encode(data.split_words(sentence), words, 256 + len(words)).tolist()
    assert standalone.decode(tokens, words) == data.decode(tokens, words) == sentence
    assert standalone.WORD.pattern == data.WORD.pattern


@pytest.mark.slow
def test_every_command_of_the_readme_runs(text: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """At small settings; what needs a GPU says so in a sentence."""
    blocks = re.findall(r"```sh\n(.*?)```", (STUDY / "README.md").read_text(), re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) == 7
    names = {"TEXT": str(text), "RUN": str(tmp_path / "run"), "FOLDER": str(tmp_path / "exports")}
    environment = {**os.environ, "PHASEWISE_LOCK_DIR": str(tmp_path)}
    printed = {}
    for command in commands:
        words = [
            re.sub(r"^(TEXT|RUN|FOLDER)(?=/|$)", lambda found: names[found[0]], word) for word in shlex.split(command)
        ]
        assert words[0] == "python"
        if " train " in command:
            # the last one counts
            words += [*SMALL, "--steps", "6"]
        if "ranks.yaml" in command:
            # planned for this machine in place of one with two GPUs, whose plan test_resnet_bk_docs looks at
            (tmp_path / "tiny.yaml").write_text("size: tiny\n")
            words = [word for word in words if not word.startswith("reports/")] + [str(tmp_path / "tiny.yaml"), "-n"]
        done = subprocess.run(
            [sys.executable, *words[1:]], cwd=pytestconfig.rootpath, env=environment, capture_output=True, text=True
        )
        if "tuning" in command and not torch.cuda.is_available():
            assert done.returncode == 2 and done.stderr.count("\n") == 1
            continue
        assert done.returncode in (RIGHT if "phasewise try" in command else (0,)), f"{command}: {done.stderr}"
        printed[command] = done.stdout
    of = {
        word: next(out for command, out in printed.items() if word in command)
        for word in ("train", "language generate", "/generate.py", "export")
    }
    assert "step 6: loss" in of["train"] and "held-out loss" in of["train"]
    assert of["export"].count("of the largest entry") == 4
    # the same seed, prompt and weights in ONNX Runtime
    assert of["/generate.py"].startswith("The statement") and of["/generate.py"] == of["language generate"]
    # what was exported was trained
    manifest = json.loads((tmp_path / "exports/forward-onnx/manifest.json").read_text())
    assert manifest["trained_steps"] == 6 and manifest["text_sha256"] == corpus.read_text(text, 0.05).sha256


@pytest.mark.slow
def test_an_export_that_is_off_is_not_kept(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "ALLOWED", -1.0)
    told: list[str] = []
    found = export.export(run, tmp_path / "into", ("torch-export",), told.append)
    assert all("is allowed" in result.reason for result in found) and len(found) == 2
    assert not list((tmp_path / "into").iterdir()) and all("not written" in line for line in told)


def test_wrong_texts_and_options_are_one_sentence(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "short.txt").write_text("a few words only")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.doc").write_text("mine")
    out = ["--out", tmp_path / "new"]
    assert "does not exist" in refuse(capsys, "train", tmp_path / "none.txt", *out)
    assert "byte 2 is 0xfc" in refuse(capsys, "train", tmp_path / "latin.txt", *out)
    assert "is empty" in refuse(capsys, "train", tmp_path / "empty.txt", *out)
    assert "training part has" in refuse(capsys, "train", tmp_path / "short.txt", *out)
    assert "held-out part has" in refuse(capsys, "train", text, *out, *SMALL, "--held-out", 1e-4)
    assert "no run of this command" in refuse(capsys, "train", text, "--out", tmp_path / "other", *SMALL)
    assert "use a multiple" in refuse(capsys, "train", text, *out, "--batch", 8, "--accumulate", 3)
    assert "--steps" in refuse(capsys, "train", text, *out, "--steps", 0)
    assert "--vocabulary" in refuse(capsys, "train", text, *out, "--vocabulary", 100)
    assert "no finite number" in refuse(capsys, "train", text, *out, "--held-out", "nan")
    assert "'tpu'" in refuse(capsys, "train", text, *out, "--device", "tpu")
    assert "--out" in refuse(capsys, "train", text)
    assert not (tmp_path / "new").exists()


def test_wrong_runs_are_one_sentence(text: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    assert f"no {SETTINGS}" in refuse(capsys, "generate", broken, "--prompt", "a")
    assert "--prompt is empty" in refuse(capsys, "generate", run, "--prompt", "")
    assert "finite" in refuse(capsys, "generate", run, "--prompt", "a", "--temperature", "inf")
    assert "begun with batch 8, now it is 4" in refuse(capsys, "train", text, "--out", run, *SMALL, "--batch", 4)
    changed = tmp_path / "changed.txt"
    changed.write_text(text.read_text() + "more")
    assert "begun with text_sha256" in refuse(capsys, "train", changed, "--out", run, *SMALL)
    (broken / SETTINGS).write_bytes((run / SETTINGS).read_bytes())
    assert WORDS in refuse(capsys, "export", broken)
    (broken / WORDS).write_bytes((run / WORDS).read_bytes())
    assert f"no {CHECKPOINT}" in refuse(capsys, "export", broken)
    (broken / CHECKPOINT).write_bytes((run / CHECKPOINT).read_bytes()[:1000])
    assert "cut off" in refuse(capsys, "generate", broken, "--prompt", "a")
    assert "cut off" in refuse(capsys, "train", text, "--out", broken, *SMALL)
    (broken / CHECKPOINT).write_bytes((run / CHECKPOINT).read_bytes())
    (broken / SETTINGS).write_text((run / SETTINGS).read_text().replace('"width": 16', '"width": 32'))
    assert "tokens.weight is [512, 16]" in refuse(capsys, "generate", broken, "--prompt", "a")
    (broken / SETTINGS).write_text("{}")
    assert "can't be read" in refuse(capsys, "generate", broken, "--prompt", "a")
    (tmp_path / "there").mkdir()
    assert "exists" in refuse(capsys, "export", run, "--into", tmp_path / "there")


def test_a_loss_that_is_not_finite_saves_nothing(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lost"
    call("train", text, "--out", out, *SMALL, "--steps", 1)
    saved = load_file(out / CHECKPOINT)
    saved["head.bias"][0] = float("nan")
    run_folder.save(out, saved, 1)
    before = (out / CHECKPOINT).read_bytes()
    assert "nothing was saved" in refuse(capsys, "train", text, "--out", out, *SMALL, "--steps", 2)
    assert (out / CHECKPOINT).read_bytes() == before
