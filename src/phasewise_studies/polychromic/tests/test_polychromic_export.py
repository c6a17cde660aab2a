"""What an exported folder keeps of the model and of how it was trained, and what its generate.py prints."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers (pip install transformers)")
pytest.importorskip("safetensors", reason="needs safetensors (pip install safetensors)")

from transformers import AutoModelForCausalLM, AutoTokenizer

from phasewise_studies.polychromic.model.next_token import NextToken
from phasewise_studies.polychromic.model.weights import TINY, draw_weights
from phasewise_studies.polychromic.tests.commands import SMALL, call
from phasewise_studies.polychromic.tests.tiny_model import write_tiny_model

TEMPLATE = """{% for message in messages %}
{% if message.role == 'system' %}{{ raise_exception('no system') }}{% endif %}
{% if loop.first %}{{ bos_token }}{% endif %}the {{ message.content }} and
{% endfor %}
{% if add_generation_prompt %}one{% endif %}"""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A model with two ends, 500 positions and a chat template, and messages to learn from."""
    folder = tmp_path_factory.mktemp("given")
    model = write_tiny_model(folder / "model", [1, 3])
    for name, change in (
        ("config.json", {"max_position_embeddings": 500, "pad_token_id": 7}),
        ("generation_config.json", {"repetition_penalty": 1.5}),
        ("tokenizer_config.json", {"bos_token": "</s>"}),
    ):
        (model / name).write_text(json.dumps(json.loads((model / name).read_text()) | change))
    (model / "chat_template.jinja").write_text(TEMPLATE)
    messages = [{"role": "user", "content": "cat"}, {"role": "assistant", "content": "sat on"}]
    (folder / "data.jsonl").write_text(json.dumps({"messages": messages}))
    return "--model", str(model), "--data", str(folder / "data.jsonl"), *SMALL


def generate(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys, *arguments: str) -> str:
    """What generate.py of an export prints, run in this process."""
    monkeypatch.setattr(sys, "argv", ["generate.py", "--tokens", "4", "--temperature", "0", *arguments])
    capsys.readouterr()
    runpy.run_path(str(folder / "generate.py"), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.parametrize("decode", ["own", "library"])
def test_an_export_keeps_the_model_s_facts_and_is_prompted_as_it_was_trained(
    given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, decode: str
) -> None:
    if decode == "library":
        pytest.importorskip("peft", reason="needs peft (pip install peft)")
    call("run", *given, "--steps", "1", "--dtype", "bfloat16", "--decode", decode, "--out", str(tmp_path / "run"))
    folder = tmp_path / "export"
    said = call("export", "--out", str(tmp_path / "run"), "--into", str(folder))
    assert ("next_token.pt2" in said) == (decode == "own")
    config, settings = (json.loads((folder / f"{name}.json").read_text()) for name in ("config", "generation_config"))
    assert (config["eos_token_id"], config["pad_token_id"], config["max_position_embeddings"]) == ([1, 3], 7, 500)
    assert (settings["eos_token_id"], settings["repetition_penalty"]) == ([1, 3], 1.5)
    # as a plain model would go on: what is compared is the prompt
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 3]}))
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype is torch.bfloat16
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": "cat"}], tokenize=False, add_generation_prompt=True
    )
    assert asked == "</s>the cat and\none"
    for text, option in ((asked, ()), ("cat", ("--raw",))):
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        wanted = model.float().generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=4, do_sample=False)
        found = generate(folder, monkeypatch, capsys, "--prompt", "cat", *option)
        assert found.strip() == tokenizer.decode(wanted[0, ids.shape[1] :], skip_special_tokens=True)
    with pytest.raises(SystemExit) as ended:
        generate(folder, monkeypatch, capsys, "--prompt", "", "--raw")
    assert ended.value.code == 2
    assert "--prompt holds no token" in capsys.readouterr().err


def test_the_example_decodes_as_the_library_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    model = write_tiny_model(tmp_path / "model")
    example = Path(__file__).parents[1] / "product" / "examples" / "decode_llama.py"
    for options, prompts in (((), 2), (("--model", str(model), "--prompt", "the cat"), 1)):
        monkeypatch.setattr(sys, "argv", [str(example), "--tokens", "6", "--replies", "2", *options])
        capsys.readouterr()
        runpy.run_path(str(example), run_name="__main__")
        lines = capsys.readouterr().out.splitlines()
        assert f"greedy: {prompts} of {prompts} prompts go on as transformers' do" in lines
        assert len(lines) == 4 + 2 * prompts


def test_a_bfloat16_model_is_exported_so_that_onnx_runs_it(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime (pip install onnxruntime)")
    pytest.importorskip("onnxscript", reason="needs onnxscript (pip install onnxscript)")
    model = NextToken(draw_weights(TINY).to("cpu", torch.bfloat16), wide=True).eval()
    prompts, lengths = torch.randint(3, 99, (2, 7), generator=torch.Generator().manual_seed(0)), torch.tensor([7, 4])
    torch.onnx.export(model, (prompts, lengths), tmp_path / "model.onnx", dynamo=True)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    given = dict(zip((one.name for one in session.get_inputs()), (prompts.numpy(), lengths.numpy()), strict=True))
    (found,) = session.run(None, given)
    assert torch.allclose(torch.from_numpy(found), model(prompts, lengths), atol=1e-4)
    # what is stored is what was trained
    assert all(p.dtype is torch.bfloat16 for p in model.parameters())
