"""A plan whose records are fresh stays as it is on disk, whatever else of the workload has changed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phasewise.model.freshness import RECORDS, Closure, Stamp, digest_changed, hash_now, list_changed, read_stamp
from phasewise.model.layout import Layout
from phasewise.plan.split import split_plan
from phasewise.records.plan import PreparePlan, VariantPlan
from phasewise.store import digest_of, read_if_there


def keep_variant(plan: VariantPlan, closure: Closure, layout: Layout) -> VariantPlan:
    """`plan` with the sources that its records were made from, while they are fresh."""
    folder = layout.records(plan.workload, plan.run, plan.variant)
    old = read_if_there(folder / "plan.json", VariantPlan)
    if old is None or msgspec.structs.replace(split_plan(plan)[0], sources=old.sources) != old:
        return plan
    made_from = digest_of(folder / "plan.json")
    stamps = [stamp for name in RECORDS if (stamp := read_stamp(folder / name)) is not None and stamp.plan == made_from]
    return msgspec.structs.replace(plan, sources=_choose(old.sources, stamps, closure))


def keep_prepare(plan: PreparePlan, closure: Closure, layout: Layout) -> PreparePlan:
    """As `keep_variant`, for what is prepared once a run."""
    folder = layout.run(plan.workload, plan.run)
    old = read_if_there(folder / "prepare.plan.json", PreparePlan)
    stamp = read_stamp(folder / "prepare.json")
    if old is None or stamp is None or msgspec.structs.replace(plan, sources=old.sources) != old:
        return plan
    return msgspec.structs.replace(plan, sources=_choose(old.sources, [stamp], closure))


def _choose(before: str, stamps: Iterable[Stamp], closure: Closure) -> str:
    loaded = [stamp.loaded for stamp in stamps]
    if not loaded or None in loaded:
        # what its processes loaded is not known, so all that they may have loaded counts
        return closure.digest
    files = [one for one in loaded if one]
    now = hash_now(files)
    changed = [name for one in files for name in list_changed(one, now)]
    return digest_changed(closure, changed) if changed else before
