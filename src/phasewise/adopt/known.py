"""What has to be known of a module before a workload is written for it. Imports no torch."""

from __future__ import annotations

import msgspec

from phasewise.records.base import Bytes

# items of a guessed batch
BATCH = 8


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What a process that has built the module and called it once tells."""

    # of the class
    name: str
    # names of the arguments of `forward`, in the order in which they are given
    arguments: tuple[str, ...]
    # of these, the ones that are no tensors, as they are typed
    plain: dict[str, str]
    # an expression for each tensor, where the module's file does not say what it is called with
    guessed: dict[str, str] = {}
    # the function of its file that does, as it is called
    maker: str = ""
    # whether that gives a dict, by the names of the arguments
    by_name: bool = False
    # whether its file says what the class is built with
    has_init: bool
    # "tensor", "mapping" or "sequence"
    result: str
    # of a call: operations of products, convolutions and attention, and bytes of arguments and results, and of weights
    flops: float
    bytes: Bytes
    weight_bytes: Bytes
    # of its weights
    dtype: str
