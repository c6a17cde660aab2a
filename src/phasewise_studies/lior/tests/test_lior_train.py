"""A stranger's path: every command of the README on own data, Ctrl-C and on, and every wrong input a sentence."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file

from phasewise_studies.lior.product import train, use
from phasewise_studies.lior.product.files import read_notes
from phasewise_studies.lior.product.run_folder import CHECKPOINT, CURVES, FORM
from phasewise_studies.testing import RIGHT

STUDY = Path(train.__file__).parents[1]
README = (STUDY / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
COMMANDS = [line for kind, block in BLOCKS if not kind for line in block.splitlines()]
# a window of these takes milliseconds
SMALL = ["--steps", "3", "--grid", "5", "--inner", "4", "--bank_rows", "24", "--batch_size", "4"]


def make_rows(count: int = 22, width: int = 6) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    tokens, pull, values = (torch.randn(count, n, generator=generator) for n in (8, 8, width))
    return {"tokens": tokens, "targets": 1.2 * tokens + 0.5 * pull, "values": values}


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    """A folder to work in, with own.safetensors in it."""
    monkeypatch.chdir(tmp_path)
    save_file(make_rows(), "own.safetensors")
    return tmp_path


def call(command, monkeypatch, *arguments: str) -> int:
    """Exit code of a command, run in this process."""
    monkeypatch.setattr(sys, "argv", [f"{command.__name__.rpartition('.')[2]}.py", *arguments])
    try:
        command.main()
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def complain(command, monkeypatch, capsys, *arguments: str) -> str:
    """The one sentence of a command that ends with exit code 2."""
    capsys.readouterr()
    assert call(command, monkeypatch, *arguments) == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said and said.endswith(".")
    return said


def read_curves(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / CURVES).read_text().splitlines()]


def run_command(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(line)
    program = sys.executable if program == "python" else str(Path(sys.executable).with_name(program))
    return subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, timeout=540)


@pytest.mark.slow
def test_every_command_of_the_readme_runs_on_own_data(tmp_path: Path) -> None:
    (example,) = (block for kind, block in BLOCKS if kind == "python")
    (tmp_path / "example.py").write_text(example)
    for line in ["python example.py", *(line for line in COMMANDS if line.startswith("python "))]:
        done = run_command(line, tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    curves = read_curves(tmp_path / "run")
    assert [line["window"] for line in curves] == list(range(24))
    assert load_file(tmp_path / "found.safetensors")["retrieved"].shape == (100, 32)
    # 8 rows of the first batch and 8 of each window
    assert len(load_file(tmp_path / "bank.safetensors")["coords"]) == 200
    assert load_file(tmp_path / "next" / CHECKPOINT)["bank_valid"].sum() == 256
    script = run_command("python step/run_step.py own.safetensors out.safetensors", tmp_path)
    assert script.returncode == 0, script.stderr
    assert load_file(tmp_path / "out.safetensors")["retrieved"].shape == (8, 32)


@pytest.mark.slow
def test_the_readmes_command_that_measures_a_phase_runs(tmp_path: Path, repository: Path) -> None:
    shutil.copytree(repository / "workflow", tmp_path / "workflow")
    (line,) = (line for line in COMMANDS if line.startswith("phasewise "))
    done = run_command(line, tmp_path)
    assert done.returncode in RIGHT, done.stderr
    assert "06-adaptive-cleanup feedback-32: gate pass" in done.stdout + done.stderr


def test_no_other_program_is_called_in_the_readme() -> None:
    assert len(COMMANDS) == 6
    assert {line.split()[0] for line in COMMANDS} == {"python", "phasewise"}


def test_ctrl_c_ends_after_a_window_and_the_same_command_ends_with_the_same_bits(place: Path, monkeypatch) -> None:
    command = ["own.safetensors", *SMALL, "--epochs", "20", "--save_every", "7"]
    process = subprocess.Popen(
        [sys.executable, "-m", train.__name__, *command, "--log_every", "1", "--out", "stopped"],
        stdout=subprocess.PIPE, text=True, cwd=place,
    )  # fmt: skip
    assert process.stdout is not None
    while not process.stdout.readline().startswith("window 3 "):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "of 100 windows; the same command goes on" in said
    half = len(read_curves(place / "stopped"))
    assert 4 <= half < 100
    # what a process wrote that died behind its last checkpoint is run again
    with (place / "stopped" / CURVES).open("a") as file:
        file.write('{"window": "of a process that died"}\n')
    assert call(train, monkeypatch, *command, "--out", "stopped") == 0
    assert call(train, monkeypatch, *command, "--out", "steady") == 0
    assert read_curves(place / "stopped") == read_curves(place / "steady")
    stopped, steady = (load_file(place / name / CHECKPOINT) for name in ("stopped", "steady"))
    assert stopped.keys() == steady.keys()
    assert all(torch.equal(stopped[name], steady[name]) for name in steady)


def test_a_process_that_is_killed_goes_on_from_its_last_checkpoint(place: Path, monkeypatch) -> None:
    command = ["own.safetensors", *SMALL, "--save_every", "2", "--out", "killed"]
    process = subprocess.Popen(
        [sys.executable, "-m", train.__name__, *command, "--epochs", "400"], stdout=subprocess.DEVNULL, cwd=place
    )
    deadline = time.monotonic() + 60
    while not (place / "killed" / CHECKPOINT).is_file():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = int(read_notes(place / "killed" / CHECKPOINT)["windows"])
    assert done % 2 == 0
    epochs = done // 5 + 2
    assert call(train, monkeypatch, *command, "--epochs", str(epochs)) == 0
    assert [line["window"] for line in read_curves(place / "killed")] == list(range(5 * epochs))


def test_a_finished_training_says_so_and_more_epochs_go_on(place: Path, monkeypatch, caplog) -> None:
    for epochs, said in (("1", "5 windows done"), ("1", "5 of 5 windows are done"), ("2", "windows 5 to 9 of 10")):
        assert call(train, monkeypatch, "own.safetensors", "--out", "run", *SMALL, "--epochs", epochs) == 0
        assert said in caplog.text
        caplog.clear()


def test_all_kinds_of_files_give_the_same_training(place: Path, monkeypatch) -> None:
    rows = make_rows()
    torch.save(rows, "own.pt")
    numpy.savez("own.npz", **{name: tensor.numpy() for name, tensor in rows.items()})
    found = []
    for kind in ("safetensors", "pt", "npz"):
        assert call(train, monkeypatch, f"own.{kind}", "--out", kind, *SMALL) == 0
        found.append(read_curves(place / kind))
    assert found[0] == found[1] == found[2]
    assert len({json.dumps(line["lior"]) for line in found[0]}) == 5


def test_an_exported_bank_begins_another_training_with_the_same_memory(place: Path, monkeypatch) -> None:
    assert call(train, monkeypatch, "own.safetensors", "--out", "run", *SMALL, "--epochs", "3") == 0
    assert call(use, monkeypatch, "bank", "run", "--out", "bank.safetensors") == 0
    bank, trained = load_file("bank.safetensors"), load_file(f"run/{CHECKPOINT}")
    # the ring is full: its oldest row comes first
    assert torch.equal(bank["coords"], trained["bank_coords"].roll(-int(trained["cursor"]), 0))
    save_file(
        {name: trained[name] for name in ("field", "rest", "metric", "theta", "projection", "lift")}, "mine.safetensors"
    )
    again = ["own.safetensors", *SMALL, "--bank", "bank.safetensors", "--start", "mine.safetensors"]
    assert call(train, monkeypatch, *again, "--out", "imported") == 0
    assert call(train, monkeypatch, "own.safetensors", *SMALL, "--start", f"run/{CHECKPOINT}", "--out", "whole") == 0
    # the order of rows is no part of a memory, but of a sum in float32
    for line, other in zip(read_curves(place / "imported"), read_curves(place / "whole"), strict=True):
        assert line["lior"] == pytest.approx(other["lior"], rel=1e-5)
    assert read_curves(place / "imported")[0]["lior"] != read_curves(place / "run")[0]["lior"]


def test_what_is_retrieved_is_what_a_free_phase_of_training_reports(place: Path, monkeypatch) -> None:
    assert call(train, monkeypatch, "own.safetensors", "--out", "run", *SMALL) == 0
    assert call(use, monkeypatch, "retrieve", "run", "own.safetensors", "--out", "found.safetensors") == 0
    found, rows = load_file("found.safetensors"), make_rows()
    assert found["retrieved"].shape == (22, 6)
    # one window over the first four rows, from the same memory
    save_file({name: tensor[:4].clone() for name, tensor in rows.items()}, "four.safetensors")
    assert call(train, monkeypatch, "four.safetensors", *SMALL, "--start", f"run/{CHECKPOINT}", "--out", "one") == 0
    (line,) = read_curves(place / "one")
    assert float(found["lior"][0]) == pytest.approx(line["lior"][0], rel=1e-5)


def test_the_documents_settings_come_from_preset_file_and_flags(place: Path, monkeypatch, caplog) -> None:
    Path("config.json").write_text(
        json.dumps({"step_progress_every": 2, "timing_debug": True, "cudnn_benchmark": True})
    )
    asked = [
        "own.safetensors",
        "--out",
        "run",
        *SMALL,
        "--preset",
        "development",
        "--config",
        "config.json",
        "--no-timing_debug",
    ]
    assert call(train, monkeypatch, *asked) == 0
    said = caplog.text
    assert "window 0 step 1: LIoR" in said and "step 2:" not in said
    assert "[TIMING]" not in said
    assert "cudnn_benchmark: no convolution is here" in said


def test_numbers_that_explode_end_the_training_and_keep_the_last_sound_checkpoint(
    place: Path, monkeypatch, capsys
) -> None:
    rows = make_rows(8)
    save_file({**rows, "tokens": rows["tokens"] * 1e25}, "huge.safetensors")
    said = complain(train, monkeypatch, capsys, "huge.safetensors", "--out", "run", *SMALL)
    assert "window 0 has LIoR" in said and "not finite" in said
    assert not (place / "run" / CHECKPOINT).exists()


WRONG = [
    (["none.safetensors"], "there is no such file"),
    (["own.csv"], "files of kind .csv are not read"),
    (["broken.safetensors"], "not a sound .safetensors file"),
    (["code.pt"], "not a sound .pt file"),
    (["lone.pt"], "a dictionary of tensors by name"),
    (["without.safetensors"], "values missing"),
    (["wide.safetensors"], r"'tokens' has shape (22, 9); it has to be (N, 8)"),
    (["uneven.safetensors"], "tokens 21, targets 22, values 22"),
    (["nan.safetensors"], "'targets' is not finite at (3, 2)"),
    (["own.safetensors", "--batch_size", "23"], "22 rows fill no batch of 23"),
    (["own.safetensors", "--bank_rows", "3"], "--bank_rows is 3, under a batch of 4"),
    (["own.safetensors", "--epochs", "0"], "--epochs is 0"),
    (["own.safetensors", "--verify", "-1"], "--verify is -1"),
    (["own.safetensors", "--steps", "many"], "invalid int value: 'many'"),
    (["own.safetensors", "--preset", "fast"], "invalid choice: 'fast'"),
    (["own.safetensors", "--use_cudagraphs"], "needs static_shapes=True"),
    (["own.safetensors", "--use_cudagraphs", "--static_shapes", "--capture_batch_size", "8"], "set capture_batch_size=4"),
    (["own.safetensors", "--warmup_steps", "-1"], "warmup_steps is -1"),
    (["own.safetensors", "--config", "none.json"], "it can't be read"),
    (["own.safetensors", "--config", "typo.json"], "'use_cudagraph' is unknown"),
    (["own.safetensors", "--config", "word.json"], "warmup_steps is 'ten'"),
    (["own.safetensors", "--bank", "own.safetensors"], "a bank has coords and states"),
    (["own.safetensors", "--bank", "long.safetensors"], "set --bank_rows 30"),
    (["own.safetensors", "--bank", "other.safetensors"], "'states' has shape (5, 7); it has to be (5, 6)"),
    (["own.safetensors", "--bank", "empty.safetensors"], "no row is valid"),
    (["own.safetensors", "--start", "own.safetensors"], "'targets' is unknown"),
    (["own.safetensors", "--start", "field.safetensors"], "'field' has shape (2, 2, 4, 4, 2)"),
    (["own.safetensors", "--out", "full"], "it is there and holds no training"),
]  # fmt: skip


def write_wrong_files() -> None:
    rows = make_rows()
    torch.save(torch.zeros(3), "lone.pt")
    torch.save({"tokens": Path("any")}, "code.pt")
    for name, text in (("broken.safetensors", "no tensors"), ("typo.json", '{"use_cudagraph": true}'), ("word.json", '{"warmup_steps": "ten"}')):  # fmt: skip
        Path(name).write_text(text)
    Path("full").mkdir()
    Path("full/thesis.txt").write_text("two years of work")
    nan = rows["targets"].clone()
    nan[3, 2] = torch.nan
    bank = {"coords": torch.zeros(5, 8), "states": torch.zeros(5, 6)}
    for name, tensors in {
        "without": {"tokens": rows["tokens"], "targets": rows["targets"]},
        "wide": {**rows, "tokens": torch.zeros(22, 9)},
        "uneven": {**rows, "tokens": rows["tokens"][:21].clone()},
        "nan": {**rows, "targets": nan},
        "long": {"coords": torch.zeros(30, 8), "states": torch.zeros(30, 6)},
        "other": {**bank, "states": torch.zeros(5, 7)},
        "empty": {**bank, "valid": torch.zeros(5)},
        "field": {"field": torch.zeros(2, 2, 4, 4, 2)},
    }.items():
        save_file(tensors, f"{name}.safetensors")


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_a_wrong_input_is_one_sentence(arguments, words: str, place: Path, monkeypatch, capsys) -> None:
    write_wrong_files()
    said = complain(train, monkeypatch, capsys, *SMALL, "--out", "run", *arguments)
    assert words in said
    assert not (place / "run").exists()


def test_a_training_that_was_begun_with_something_else_is_refused(place: Path, monkeypatch, capsys) -> None:
    assert call(train, monkeypatch, "own.safetensors", "--out", "run", *SMALL) == 0
    for changed in (["--seed", "1"], ["--steps", "4"], ["--symmetric_nudging"], ["--mode", "open"]):
        said = complain(train, monkeypatch, capsys, "own.safetensors", "--out", "run", *SMALL, *changed)
        assert f"begun with {changed[0].strip('-').split('_')[0].replace('mode', 'feedback')}" in said
    save_file(make_rows(23), "own.safetensors")
    assert "begun with data" in complain(train, monkeypatch, capsys, "own.safetensors", "--out", "run", *SMALL)
    (place / "run" / FORM).write_text('{"schema": 7}')
    assert "schema is not 1" in complain(train, monkeypatch, capsys, "own.safetensors", "--out", "run", *SMALL)


def test_use_refuses_what_it_cannot_use(place: Path, monkeypatch, capsys) -> None:
    assert call(train, monkeypatch, "own.safetensors", "--out", "run", *SMALL) == 0
    save_file({"tokens": torch.zeros(0, 8)}, "none.safetensors")
    save_file({"values": torch.zeros(2, 8)}, "other.safetensors")
    for arguments, words in (
        (["bank", "nowhere", "--out", "b.safetensors"], "no training is there"),
        (["bank", "run", "--out", "own.safetensors"], "nothing is overwritten"),
        (["bank", "run", "--out", "bank.pt"], "tensors are written as .safetensors"),
        (["retrieve", "run", "none.safetensors", "--out", "f.safetensors"], "has no rows"),
        (["retrieve", "run", "other.safetensors", "--out", "f.safetensors"], "tokens are missing"),
        (["sell", "run"], "invalid choice: 'sell'"),
    ):
        assert words in complain(use, monkeypatch, capsys, *arguments)
    (place / "run" / CHECKPOINT).write_bytes(b"torn")
    assert "not a sound .safetensors file" in complain(
        use, monkeypatch, capsys, "bank", "run", "--out", "b.safetensors"
    )


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["feedback", "open"])
def test_on_a_gpu_the_graph_is_captured_compared_and_resumed(mode: str, place: Path, monkeypatch, caplog) -> None:
    graph = ["--use_cudagraphs", "--static_shapes", "--capture_batch_size", "4", "--verify", "2", "--mode", mode]
    assert call(train, monkeypatch, "own.safetensors", "--out", "run", *SMALL, *graph) == 0
    said = caplog.text
    assert "[CUDAGRAPH] Captured after 3 warm-up windows, for batches of 4 tokens" in said
    assert "ms without a graph" in said and "[VERIFY] loss off by" in said
    assert call(train, monkeypatch, "own.safetensors", "--out", "run", *SMALL, *graph, "--epochs", "2") == 0
    assert call(train, monkeypatch, "own.safetensors", "--out", "steady", *SMALL, *graph, "--epochs", "2") == 0
    assert read_curves(place / "run") == read_curves(place / "steady")
