"""From phases to variants: what is built on what, case by case."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from phasewise.model.needs import unmet, unmet_but_fallback
from phasewise.model.workload import Phase, Workload
from phasewise.records.base import Scalar
from phasewise.records.machine import Machine
from phasewise.records.plan import Kind

BASELINE = "00-baseline"
# a plan names no more, so that plans grow with the phases and not with their square
MOST_ANCESTORS = 24

Values = dict[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a variant stands in one case."""

    switches: Values
    # what it is compared with; None for the baseline
    parent: str | None
    # nearest first, the baseline last
    ancestors: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One full set of switches, in each case that it applies to."""

    name: str
    kind: Kind
    phase: Phase | None
    kept: bool
    places: Mapping[str, Place]
    skip: str | None = None
    untimed: str | None = None
    peer: str | None = None


@dataclass(frozen=True, kw_only=True)
class Stack:
    """All variants of a workload on one machine, in the order of the report."""

    variants: tuple[Variant, ...]
    # last kept variant by case
    tops: Mapping[str, str]


def default_switches(workload: Workload) -> Values:
    """The baseline: the default of every switch."""
    defaults = workload.switches()
    return {item.name: getattr(defaults, item.name) for item in dataclasses.fields(workload.switches)}


def stack_variants(workload: Workload, cases: tuple[str, ...], machine: Machine, ablations: str = "none") -> Stack:
    """Baseline, phases in order of declaration, ablations and peers, for the chosen `cases`.

    A phase stands on the last kept one before it that applies to the case, or on `onto`. A phase that this machine can't time
    is not built upon.
    """
    root = Place(switches=default_switches(workload), parent=None, ancestors=())
    variants = [Variant(name=BASELINE, kind=Kind.BASELINE, phase=None, kept=True, places=dict.fromkeys(cases, root))]
    tops = dict.fromkeys(cases, BASELINE)
    chains: dict[str, list[Phase]] = {case: [] for case in cases}
    places = {(BASELINE, case): root for case in cases}
    names: dict[str, str] = {}
    dropped: set[str] = set()
    for number, phase in enumerate(workload.phases, start=1):
        name = f"{number:02d}-{phase.name}"
        names[phase.name] = name
        skip = unmet(phase.needs, machine)
        untimed = unmet_but_fallback(phase.needs, machine)
        if untimed is not None:
            skip = skip if skip != untimed else None
        here: dict[str, Place] = {}
        for case in cases:
            if phase.cases and case not in phase.cases:
                continue
            below = names[phase.onto] if phase.onto else tops[case]
            below = _nearest(below, case, places, dropped)
            base = places[(below, case)]
            here[case] = Place(
                switches=base.switches | dict(phase.sets), parent=below, ancestors=_list_ancestors(below, base)
            )
        kept = phase.keep and phase.must is None
        variants.append(
            Variant(name=name, kind=Kind.PHASE, phase=phase, kept=kept, places=here, skip=skip, untimed=untimed)
        )
        for case, place in here.items():
            places[(name, case)] = place
            if kept and skip is None and untimed is None:
                tops[case] = name
                chains[case] = [*(chains[case] if not phase.onto else _chain(workload, phase.onto, case)), phase]
        if skip is not None or untimed is not None:
            dropped.add(name)
    variants += _ablate(workload, chains, tops, places, ablations, root)
    beside = {
        peer.name: {case: _nearest(names[peer.beside], case, places, dropped) for case in cases}
        for peer in workload.peers
        if peer.beside
    }
    variants += _peers(workload, cases, tops, beside, places, machine)
    return Stack(variants=tuple(variants), tops=tops)


def _nearest(name: str, case: str, places: Mapping[tuple[str, str], Place], dropped: Collection[str]) -> str:
    """`name`, or the nearest ancestor that this machine can time and that applies to `case`."""
    while name in dropped or (name, case) not in places:
        place = places.get((name, case))
        if place is None or place.parent is None:
            return BASELINE
        name = place.parent
    return name


def _chain(workload: Workload, name: str, case: str) -> list[Phase]:
    """The kept phases up to and including `name`, as `onto` sees them."""
    chain: list[Phase] = []
    for phase in workload.phases:
        if phase.name == name:
            return [*(_chain(workload, phase.onto, case) if phase.onto else chain), phase]
        if phase.keep and phase.must is None and (not phase.cases or case in phase.cases):
            chain.append(phase)
    return chain


def _ablate(
    workload: Workload,
    chains: Mapping[str, list[Phase]],
    tops: Mapping[str, str],
    places: Mapping[tuple[str, str], Place],
    ablations: str,
    root: Place,
) -> list[Variant]:
    """`without-X` beside the stack and `only-X` beside the baseline, where they differ from what is measured anyway."""
    found: dict[tuple[Kind, str], dict[str, Place]] = {}
    for case, chain in chains.items():
        known = [place.switches for (_, other), place in places.items() if other == case]
        top = places[(tops[case], case)]
        for phase in chain:
            rest: Values = dict(root.switches)
            for other in chain:
                if other is not phase:
                    rest |= dict(other.sets)
            only = root.switches | dict(phase.sets)
            if ablations in ("without", "both") and rest not in known:
                found.setdefault((Kind.WITHOUT, phase.name), {})[case] = Place(
                    switches=rest, parent=tops[case], ancestors=_list_ancestors(tops[case], top)
                )
            if ablations in ("only", "both") and only not in known:
                found.setdefault((Kind.ONLY, phase.name), {})[case] = Place(
                    switches=only, parent=BASELINE, ancestors=(BASELINE,)
                )
    by_name = {phase.name: phase for phase in workload.phases}
    return [
        Variant(name=f"{kind.value}-{name}", kind=kind, phase=by_name[name], kept=False, places=here)
        for (kind, name), here in sorted(found.items(), key=lambda item: (item[0][0].value, item[0][1]))
    ]


def _peers(
    workload: Workload,
    cases: tuple[str, ...],
    tops: Mapping[str, str],
    beside: Mapping[str, Mapping[str, str]],
    places: Mapping[tuple[str, str], Place],
    machine: Machine,
) -> list[Variant]:
    """Each peer beside the last kept variant, or beside the one that `beside` has for it."""
    found = []
    for peer in workload.peers:
        ours = beside.get(peer.name, tops)
        here = {
            case: _place_beside(ours[case], places[(ours[case], case)])
            for case in cases
            if not peer.cases or case in peer.cases
        }
        if here:
            skip = unmet(peer.needs, machine)
            found.append(
                Variant(
                    name=f"peer-{peer.name}",
                    kind=Kind.PEER,
                    phase=None,
                    kept=False,
                    places=here,
                    skip=skip,
                    peer=peer.name,
                )
            )
    return found


def _place_beside(name: str, place: Place) -> Place:
    return Place(switches=place.switches, parent=name, ancestors=_list_ancestors(name, place))


def _list_ancestors(name: str, place: Place) -> tuple[str, ...]:
    """The ancestors of what stands on the variant `name`: the nearest, and the baseline."""
    return (
        (name, *place.ancestors) if len(place.ancestors) < MOST_ANCESTORS else (name, *place.ancestors[:-2], BASELINE)
    )
