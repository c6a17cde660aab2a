"""The cases of the polychromic trainer and their sizes."""

from __future__ import annotations

from phasewise import Case, Shape

CASES = {
    "train-step": Case(
        tiny=Shape(
            model="tiny", encoder="tiny", examples=2, micro=1, replies=3, prompt=8, tokens=4, length=16, steps=1
        ),
        small=Shape(
            model="smollm2",
            encoder="minilm",
            examples=2,
            micro=1,
            replies=3,
            prompt=64,
            tokens=8,
            length=128,
            steps=1,
        ),
        full=Shape(
            model="smollm2",
            encoder="minilm",
            examples=2,
            micro=1,
            replies=3,
            prompt=64,
            tokens=16,
            length=512,
            steps=1,
        ),
        steps=2,
    ),
    "replies": Case(
        tiny=Shape(model="tiny", prompts=2, replies=3, prompt=10, tokens=6),
        small=Shape(model="smollm2", prompts=2, replies=3, prompt=64, tokens=16),
        full=Shape(model="smollm2", prompts=4, replies=3, prompt=128, tokens=100),
        steps=2,
    ),
    "replies-24": Case(
        full=Shape(model="smollm2", prompts=8, replies=3, prompt=64, tokens=64),
        steps=2,
    ),
    "micro-step": Case(
        tiny=Shape(
            model="tiny", encoder="tiny", examples=2, micro=2, replies=0, prompt=0, tokens=0, length=24, steps=1
        ),
        small=Shape(
            model="smollm2",
            encoder="minilm",
            examples=2,
            micro=2,
            replies=0,
            prompt=0,
            tokens=0,
            length=128,
            steps=1,
        ),
        full=Shape(
            model="smollm2",
            encoder="minilm",
            examples=2,
            micro=2,
            replies=0,
            prompt=0,
            tokens=0,
            length=512,
            steps=1,
        ),
        steps=2,
    ),
    "encode": Case(
        tiny=Shape(encoder="tiny", texts=3, tokens=8),
        small=Shape(encoder="minilm", texts=12, tokens=100),
        full=Shape(encoder="minilm", texts=12, tokens=100),
        inputs="resident",
    ),
    "diversity": Case(
        tiny=Shape(groups=32, replies=10, width=384),
        small=Shape(groups=512, replies=16, width=384),
        full=Shape(groups=4096, replies=16, width=384),
        inputs="resident",
    ),
    "window": Case(
        tiny=Shape(
            model="tiny", encoder="tiny", examples=2, micro=1, replies=2, prompt=8, tokens=4, length=16, steps=1
        ),
        full=Shape(
            model="smollm2",
            encoder="minilm",
            examples=16,
            micro=2,
            replies=3,
            prompt=128,
            tokens=100,
            length=512,
            steps=1,
        ),
        steps=2,
    ),
    "many-steps": Case(
        full=Shape(
            model="smollm2",
            encoder="minilm",
            examples=2,
            micro=2,
            replies=3,
            prompt=64,
            tokens=16,
            length=128,
            steps=100,
        ),
        steps=2,
    ),
}
