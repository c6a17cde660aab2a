"""The cases of the polychromic trainer and their sizes.

A gate steps a variant about 26 times, and a token without a graph is 1,600 launches, 2,500 with adapters: 10 to 25 ms however few
replies there are. So forms without a graph are compared over few tokens; the full lengths are there for those that can run them.
"""

from __future__ import annotations

from phasewise import Case, Shape

TINY = {"model": "tiny", "encoder": "tiny"}
REAL = {"model": "smollm2", "encoder": "minilm"}
# one optimizer step of two micro-batches
STEP = {"examples": 2, "micro": 1, "replies": 3, "steps": 1}
# one micro-batch of given text, without replies
GIVEN = {"examples": 2, "micro": 2, "replies": 0, "prompt": 0, "tokens": 0, "steps": 1}
DIVERSITY = {"replies": 16, "width": 384}

CASES = {
    "train-step": Case(
        tiny=Shape(**TINY, **STEP, prompt=8, tokens=3, length=16),
        small=Shape(**REAL, **STEP, prompt=64, tokens=8, length=128),
        full=Shape(**REAL, **STEP, prompt=64, tokens=8, length=512),
        steps=2,
    ),
    # twelve replies over few tokens: what forms without a graph are compared in
    "decode": Case(
        tiny=Shape(model="tiny", prompts=4, replies=3, prompt=10, tokens=3),
        small=Shape(model="smollm2", prompts=2, replies=3, prompt=64, tokens=16),
        full=Shape(model="smollm2", prompts=4, replies=3, prompt=128, tokens=16),
        steps=2,
    ),
    # not at tiny, where it would be decode again
    "replies": Case(
        small=Shape(model="smollm2", prompts=2, replies=3, prompt=64, tokens=16),
        full=Shape(model="smollm2", prompts=4, replies=3, prompt=128, tokens=100),
        steps=2,
        # 1,200 passes one after another: per token, from 12 and 24 of them
        baseline_at={
            "full": tuple(Shape(model="smollm2", prompts=1, replies=3, prompt=128, tokens=n) for n in (4, 8)),  # type: ignore[dict-item]
        },
    ),
    "replies-24": Case(
        full=Shape(model="smollm2", prompts=8, replies=3, prompt=64, tokens=64),
        steps=2,
    ),
    "micro-step": Case(
        tiny=Shape(**TINY, **GIVEN, length=24),
        small=Shape(**REAL, **GIVEN, length=128),
        full=Shape(**REAL, **GIVEN, length=512),
        steps=2,
    ),
    "encode": Case(
        tiny=Shape(encoder="tiny", texts=12, tokens=8),
        small=Shape(encoder="minilm", texts=12, tokens=100),
        full=Shape(encoder="minilm", texts=12, tokens=100),
        inputs="resident",
    ),
    "diversity": Case(
        tiny=Shape(groups=12, replies=10, width=384),
        small=Shape(**DIVERSITY, groups=512),
        full=Shape(**DIVERSITY, groups=4096),
        inputs="resident",
        # one group after another, seventeen masks each: seconds a step at the full size
        baseline_at={"full": (Shape(**DIVERSITY, groups=32), Shape(**DIVERSITY, groups=64))},
    ),
    "window": Case(
        tiny=Shape(**TINY, **STEP | {"replies": 2}, prompt=8, tokens=3, length=16),
        full=Shape(**REAL, **STEP | {"examples": 16, "micro": 2}, prompt=128, tokens=100, length=512),
        steps=2,
    ),
    # the document's model, by which its hours are counted: two optimizer steps, so that the loss is audited layer by layer and no
    # 8 B numbers in float64, 65 GB, have to train; one example at a time, so that two programs fit into 141 GB
    "window-8b": Case(
        full=Shape(
            **REAL | {"model": "qwen3-8b"}, **STEP | {"examples": 16, "steps": 2}, prompt=128, tokens=100, length=512
        ),
        steps=2,
    ),
    # the document's benchmark of 100 optimizer steps, all of them one step here
    "many-steps": Case(
        full=Shape(**REAL, **STEP | {"micro": 2, "steps": 100}, prompt=64, tokens=8, length=128),
        steps=2,
    ),
}
