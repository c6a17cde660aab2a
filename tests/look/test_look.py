"""A look at scripts that know nothing of it: what a step is, where its time goes, and what is said where there is none."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from phasewise.look import play
from phasewise.look.command import parse_command
from phasewise.look.conclude import count_work
from phasewise.look.describe import describe_look
from phasewise.look.page import render_look
from phasewise.look.play import ScriptFailed, look
from phasewise.match.ask import ask_base
from phasewise.match.side import parse_side
from phasewise.records.errors import UserError
from phasewise.records.look import Look
from phasewise.records.machine import Machine
from phasewise.records.profile import CaseProfile, Operator

SCRIPTS = Path(__file__).parent / "scripts"


def command(script, *arguments):
    return parse_command([sys.executable, str(SCRIPTS / f"{script}.py"), *arguments])


def found(seen: Look) -> set[str]:
    return {one.finding for one in seen.findings if one.outcome == "found"}


def regions(seen: Look) -> dict[str, float]:
    return {one.name: one.calls_per_step for one in seen.profile.regions}


def check(seen: Look) -> None:
    """What holds of every look."""
    breakdown = seen.profile.breakdown
    assert breakdown is not None
    parts = msgspec.to_builtins(breakdown)
    assert sum(parts.values()) - parts["wall_s"] == pytest.approx(breakdown.wall_s)
    assert 0 < seen.step_s.low <= seen.step_s.estimate * 1.01 and seen.step_s.estimate <= seen.step_s.high * 1.01
    assert sum(one.seconds for one in seen.findings) <= seen.step_s.estimate * 1.001
    assert seen.profile.operators and seen.profile.kernels and seen.profile.memory.peak_bytes
    assert seen.machine.peaks is not None
    assert len(describe_look(seen).splitlines()) <= 12
    assert json.loads(msgspec.json.encode(seen))["script"] == seen.script


@pytest.fixture(scope="module", autouse=True)
def measured_once():
    """The ceilings of this machine, which take as long as a script does, are measured by the first look alone."""
    asked, known = play._ask, {}

    def ask(function, payload, kind):
        if function != "measure_machine":
            return asked(function, payload, kind)
        if function not in known:
            known[function] = asked(function, payload, kind)
        return known[function]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(play, "_ask", ask)
        yield


@pytest.fixture(scope="module")
def plain(measured_once) -> Look:
    return look(command("plain", "20"), warmup=4, steps=3)


def test_a_training_loop_is_told_by_its_optimizer_and_not_by_what_is_evaluated_before(plain):
    check(plain)
    assert (plain.step_kind, plain.step_name, plain.warmup, plain.profile.steps) == ("optimizer", "AdamW", 4, 3)
    calls = regions(plain)
    assert calls["Sequential"] == calls["backward"] == calls["Optimizer.step#AdamW.step"] == 1
    # layers of one place are one region: three here, and two below the third
    assert calls["Sequential.*"] == 3 and calls["Sequential.*.*"] == 2
    assert any(name.startswith("enumerate(DataLoader)") for name in calls)
    # forward 2, backward 3: the first layer's input needs no gradient
    flops = 2 * 16 * 64 * 256 * 5
    assert plain.ceilings[0].what == "products" and plain.ceilings[0].basis.startswith(
        f"{flops:.3g} operations in float32"
    )


def test_a_page_holds_what_was_seen(plain):
    page = render_look(plain)
    for word in ("plain.py", "a step of AdamW", "Sequential.*", "addmm", "What was not seen", "other processes"):
        assert word in page
    assert "<script" not in page and "http://" not in page


def test_an_inference_loop_is_told_by_calls_of_its_outermost_module():
    seen = look(command("inference"), warmup=4, steps=3)
    check(seen)
    assert (seen.step_kind, seen.step_name) == ("call", "Classifier")
    assert regions(seen)["layers.*"] == 3 and regions(seen)["head"] == 1


def test_a_function_of_the_script_may_be_the_step_and_shows_the_loop_in_it():
    seen = look(command("inference"), step="classify", warmup=4, steps=3)
    check(seen)
    assert (seen.step_kind, seen.step_name) == ("function", "classify")
    assert regions(seen)["Classifier"] == 16
    assert "serial-loop" in found(seen)


def test_the_trainer_of_lightning_hands_its_optimizer_the_whole_step_which_is_no_work_of_the_optimizer():
    seen = look(command("lightning_trainer"), warmup=4, steps=3)
    check(seen)
    assert (seen.step_kind, seen.step_name) == ("optimizer", "SGD")
    assert regions(seen)["closure of the optimizer"] == 1
    held = {one.finding: one.share for one in seen.findings}
    assert held.get("optimizer-not-fused", 0.0) < 0.5


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None or importlib.util.find_spec("accelerate") is None,
    reason="needs transformers and accelerate, which are not installed here",
)
def test_the_trainer_of_transformers_is_looked_at_with_its_accumulation():
    seen = look(command("trainer"), warmup=4, steps=2)
    check(seen)
    assert (seen.step_kind, seen.step_name) == ("optimizer", "AdamW")
    # two batches to a step, two layers to a batch
    assert regions(seen)["BertForSequenceClassification"] == 2 and regions(seen)["bert.encoder.layer.*"] == 4


@pytest.mark.parametrize(
    ("script", "options", "words"),
    [
        ("plain", {"step": "trane_step"}, "'trane_step' is no function of plain.py; it has train_step"),
        ("plain", {"step": "torch.nosuch:step"}, "correct the module"),
        ("no_modules", {}, "no optimizer of torch stepped and no module was called; give --step"),
        ("no_modules", {"step": "descend"}, "ended after 7 steps of 21 that are needed"),
    ],
)
def test_a_script_without_enough_steps_is_one_sentence_with_the_cure(script, options, words):
    with pytest.raises(UserError, match=r"^look: ") as raised:
        look(command(script, "1"), **options)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_crash_is_told_with_the_scripts_own_frames():
    with pytest.raises(ScriptFailed) as raised:
        look(command("crash"))
    failure = raised.value.failure
    assert "crash.py:10" in failure.message and "shapes cannot be multiplied" in failure.message
    assert "inside.py" not in failure.traceback and "crash.py" in failure.traceback


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no command is given"),
        (["torchrun", "train.py"], "'torchrun' is no Python"),
        (["python"], "names no script"),
        (["python", "-c", "pass"], "names no script"),
        (["python", "-u", "nosuch.py"], "nosuch.py: no such file"),
    ],
)
def test_a_command_that_can_t_be_followed_is_one_sentence(words, told):
    with pytest.raises(UserError, match=r"^look: ") as raised:
        parse_command(words)
    assert told in str(raised.value)


def test_a_command_is_taken_apart_as_python_does():
    parsed = parse_command(["python3", "-u", "-W", "ignore", "-m", "package.train", "--lr", "1"])
    assert parsed.options == ("-u", "-W", "ignore") and parsed.module == parsed.name == "package.train"
    assert parsed.arguments == ("--lr", "1") and parsed.path == ""


def test_the_command_line_keeps_its_output_apart_from_the_scripts_and_ends_with_the_enum(tmp_path):
    def call(*words):
        return subprocess.run(
            [sys.executable, "-m", "phasewise", "look", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )

    crashed = call("--", sys.executable, str(SCRIPTS / "crash.py"))
    assert crashed.returncode == 30 and crashed.stdout == ""
    assert "crash.py came to grief" in crashed.stderr
    short = call("--", sys.executable, str(SCRIPTS / "no_modules.py"))
    assert short.returncode == 2 and "Traceback" not in short.stderr
    words = ("--warmup", "1", "--steps", "1", "--page", "look.html", "--json", "-")
    done = call(*words, "--", sys.executable, str(SCRIPTS / "plain.py"), "1")
    assert done.returncode == 0, done.stderr
    assert msgspec.json.decode(done.stdout, type=Look).script == "plain.py"
    assert (tmp_path / "look.html").read_text().startswith("<!")
    # it was ended once its steps had been seen
    assert "trained to the end" not in done.stdout + done.stderr


@pytest.mark.parametrize(("kind", "dtype"), [("cpu", "float32"), ("cuda", "tf32")])
def test_products_of_float32_are_held_against_tf32_where_there_is_one(kind: str, dtype: str) -> None:
    product = Operator(name="aten::mm", calls=1, self_s=1e-3, device_s=0.0, shapes="float32[8,8]", flops=1024.0)
    profile = CaseProfile(case="step", operators=(product,), facts={"float32_matmul_precision": "high"})
    assert count_work(profile, Machine(device="one", kind=kind, name="one")).dtype == dtype


def test_operations_are_those_that_the_judge_counts_and_those_by_hand(tmp_path):
    seen = look(command("encoder"), warmup=4, steps=3)
    base = ask_base(parse_side(str(SCRIPTS / "encoder.py")), {}, tmp_path / "start.pt", "cpu")
    batch, length, width, inner, layers = 4, 12, 32, 64, 2
    # of a token: three projections, the scores, their product with the values, one projection, two layers
    macs = 3 * width**2 + 2 * length * width + width**2 + 2 * width * inner
    by_hand = layers * batch * length * 2 * macs
    assert base.flops == by_hand
    assert sum(one.flops or 0 for one in seen.profile.operators) == pytest.approx(by_hand)
    assert f"{by_hand:.3g} operations in float32" in seen.ceilings[0].basis
