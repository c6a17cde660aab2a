"""A user's examples: read from JSONL, made into token ids, dealt into batches that are the same after a resume."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor

from phasewise.records.errors import UserError


@dataclass(frozen=True)
class Example:
    """Token ids of a prompt and of the reply to learn, which ends with the end of text."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Examples:
    """What a file holds, in its order."""

    examples: list[Example]
    # of these, those that were longer than allowed
    cut: int
    # most are messages, put through the tokenizer's chat template
    chat: bool


def read_examples(path: Path, tokenizer: Any, end: int, longest: int) -> Examples:
    """One example a line: {"prompt": ..., "reply": ...}, or {"messages": [...]} whose last message is the reply.

    Every reply ends with the token `end`. Of an example of more than `longest` tokens the beginning of the prompt is cut, down to
    half of them, then the end of the reply.

    Raises:
        UserError: a line is neither, with its number.
    """
    found, cut, chats = [], 0, 0
    try:
        # not splitlines: JSON allows other ends of lines, such as U+2028, inside its strings
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"data {path} cannot be read: {error}; give a JSONL file in UTF-8.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}, line {number}: it is no JSON ({error.msg}); write one object a line.") from error
        prompt, reply = _split(record, f"{path}, line {number}", tokenizer)
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"] or [end]
        answer = [*tokenizer(reply, add_special_tokens=False)["input_ids"], end]
        if len(ids) + len(answer) > longest:
            cut += 1
            answer = answer[: max(longest // 2, longest - len(ids))]
            ids = ids[-(longest - len(answer)) :]
        chats += "messages" in record
        found.append(Example(tuple(ids), tuple(answer)))
    if not found:
        raise UserError(f"data {path} holds no example; write one JSON object a line.")
    return Examples(examples=found, cut=cut, chat=2 * chats > len(found))


def _split(record: Any, place: str, tokenizer: Any) -> tuple[str, str]:
    if isinstance(record, dict) and isinstance(record.get("prompt"), str) and isinstance(record.get("reply"), str):
        return record["prompt"], record["reply"]
    messages = record.get("messages") if isinstance(record, dict) else None
    if isinstance(messages, list) and len(messages) > 1 and all(isinstance(one, dict) for one in messages):
        return _apply_template(messages, place, tokenizer), messages[-1]["content"]
    raise UserError(
        f'{place}: found {str(record)[:60]!r}; write {{"prompt": "...", "reply": "..."}} or {{"messages": [...]}}.'
    )


def _apply_template(messages: list[dict[str, Any]], place: str, tokenizer: Any) -> str:
    """The prompt of all messages but the last, as the model's own template writes it."""
    for message in messages:
        for name in ("role", "content"):
            if not isinstance(message.get(name), str):
                raise UserError(
                    f"{place}: a message's {name} is {str(message.get(name))[:40]!r}; give a role and a content, both text."
                )
    if getattr(tokenizer, "chat_template", None) is None:
        raise UserError(
            f"{place}: it holds messages, and the model's tokenizer has no chat template; write prompt and reply."
        )
    # comes with transformers' templates
    from jinja2 import TemplateError

    try:
        return str(tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True))
    except (TemplateError, TypeError, ValueError) as error:
        raise UserError(
            f"{place}: the model's chat template refuses these messages ({shorten(str(error), 100)}); write those that it takes, or prompt and reply."
        ) from error


def choose_batch(count: int, size: int, step: int, seed: int) -> list[int]:
    """Indices of the examples of one step: every example once an epoch, in an order that seed and epoch decide."""
    chosen = []
    for place in range(step * size, (step + 1) * size):
        epoch, index = divmod(place, count)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))
        chosen.append(int(order[index]))
    return chosen


def make_batch(
    examples: Sequence[Example], step: int, seed: int, *, replies: int, tokens: int, prompt_length: int, length: int
) -> dict[str, Tensor]:
    """Right-padded CPU tensors of the shapes that a training step takes; uniform numbers by seed and step."""
    rows = len(examples)
    text = torch.zeros(rows, length, dtype=torch.long)
    learnt = torch.zeros(rows, length, dtype=torch.long)
    prompts = torch.zeros(rows, prompt_length, dtype=torch.long)
    lengths = torch.zeros(rows, dtype=torch.long)
    for row, example in enumerate(examples):
        whole = (*example.prompt, *example.reply)[:length]
        text[row, : len(whole)] = torch.tensor(whole)
        learnt[row, len(example.prompt) : len(whole)] = 1
        asked = example.prompt[-prompt_length:]
        prompts[row, : len(asked)] = torch.tensor(asked)
        lengths[row] = len(asked)
    uniforms = torch.rand(rows * replies, tokens, generator=torch.Generator().manual_seed(seed * 1_000_003 + step))
    return {"tokens": text, "is_reply": learnt, "prompts": prompts, "lengths": lengths, "uniforms": uniforms}
