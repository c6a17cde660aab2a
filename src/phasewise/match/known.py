"""What is asked of both sides before a match is planned, and what they answer. Imports no torch."""

from __future__ import annotations

import msgspec

from phasewise.match.side import Side
from phasewise.records.base import Bytes, Scalar
from phasewise.records.plan import Allowance


class BaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a base."""

    side: Side
    overrides: dict[str, Scalar]
    # where its arguments and weights are to be kept
    start: str
    device: str
    # to try for the reference; "" is that of the inputs
    dtypes: tuple[str, ...]


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a base."""

    name: str
    # dtype of the reference; "" is that of the inputs
    dtype: str
    # of each result
    results: dict[str, str]
    # whether a result is in half precision
    is_half: bool
    # a module that gives other results each time in training, so that both are judged in evaluation mode
    evaluates: bool
    # a module in training mode that has parts which differ in evaluation mode
    trains: bool
    # that its module declares; None for that of the tier
    tolerance: Allowance | None
    # of a call: operations of products, convolutions and attention, and bytes of arguments, weights and results
    flops: float
    bytes: Bytes
    # of the tensors of one batch, and of what is made of it
    batch_bytes: Bytes
    result_bytes: Bytes


class CandidateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a candidate."""

    side: Side
    # where the base's arguments and weights are kept
    start: str


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a candidate."""

    name: str
    # a sentence on its weights, where they had to be guessed
    doubt: str
