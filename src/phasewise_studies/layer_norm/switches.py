"""What a phase may change. Imports no torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Switches:
    """One switch; its default is the baseline."""

    # eager, one-pass, native, compile or triton: who normalises the rows
    norm: str = "eager"
