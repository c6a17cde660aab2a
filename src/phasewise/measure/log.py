"""What is known of each arm while a comparison runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from phasewise.measure.entrant import Entrant
from phasewise.records.measure import Arm, Window
from phasewise.records.verdict import Failure
from phasewise.workers.warmup import Warmed


@dataclass
class ArmLog:
    """Everything but the rounds, gathered over the process sets."""

    entrant: Entrant
    items: float = 1.0
    version: str = ""
    build_s: list[float] = field(default_factory=list)
    first_step_s: list[float] = field(default_factory=list)
    warmup_steps: list[int] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    place_s: list[float] = field(default_factory=list)
    alone_s: list[float] = field(default_factory=list)
    peak_bytes: int | None = None
    memory_kind: str = "host-resident"
    energy: list[Window] = field(default_factory=list)
    idle_power_w: float | None = None
    # its steps change a state
    stateful: bool = False
    # whether everything that was judged of it was right; None where nothing was
    is_right: bool | None = None
    failure: Failure | None = None
    files: set[str] = field(default_factory=set)
    # of the newest process
    warmed: Warmed | None = None
    # seconds of all its steps, timed or not
    stepping_s: float = 0.0
    # it stepped for so long that it takes no further part
    is_spent: bool = False

    @property
    def takes_part(self) -> bool:
        return self.failure is None and not self.is_spent

    def note_opened(self, opened: dict[str, Any]) -> None:
        """Keep what opening a process took and gave."""
        self.items, self.version, self.stateful = opened["items"], opened["version"], opened["stateful"]
        self.build_s.append(opened["build_s"])
        self.first_step_s.append(opened["first_step_s"])
        self.stepping_s += opened["first_step_s"]
        if self.idle_power_w is None:
            self.idle_power_w = opened["idle_power_w"]

    def note_warmed(self, warmed: Warmed) -> None:
        self.warmed = warmed
        self.warmup_steps.append(warmed.warmup_steps)
        self.stepping_s += (warmed.warmup_steps - 1) * warmed.step_s

    def note_memory(self, used: int, kind: str) -> None:
        self.peak_bytes, self.memory_kind = max(used, self.peak_bytes or 0), kind

    def record(self) -> Arm:
        """The arm as it goes on record."""
        entrant = self.entrant
        return Arm(
            arm=entrant.arm,
            variant=entrant.variant,
            switches=dict(entrant.switches),
            ranks=entrant.ranks,
            fresh_caches=entrant.fresh_caches,
            items=self.items,
            version=self.version,
            build_s=tuple(self.build_s),
            first_step_s=tuple(self.first_step_s),
            warmup_steps=tuple(self.warmup_steps),
            step_s=tuple(self.step_s),
            place_s=tuple(self.place_s),
            alone_s=tuple(self.alone_s),
            peak_memory_bytes=self.peak_bytes,
            memory_kind=self.memory_kind,
            energy=tuple(self.energy),
            idle_power_w=self.idle_power_w,
            outputs_held=self.is_right,
            failure=self.failure,
            loaded=tuple(sorted(self.files)),
        )
