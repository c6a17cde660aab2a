"""What a phase may change."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Switches:
    vectorised: bool = False
    block: int = 0
    doubled: bool = False
