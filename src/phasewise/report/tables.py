"""Tables of a run for other tools: its results, kernels and operators, each as CSV and as Parquet."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pandas

from phasewise.records.base import Record
from phasewise.run import Run


def make_tables(run: Run) -> dict[str, bytes]:
    """Contents by file name; a table without rows is left out.

    `results`: a row a case and variant, as it was judged. `kernels`, `operators`: rows of a step, by variant and case. A column that comes
    of a record within a record has a name such as `verdict.over_parent.low`; seconds are per step.
    """
    tables = {
        "results": [_flatten(row, case=case.case) for case in run.results for row in case.rows],
        "kernels": list(_list_profiled(run, "kernels")),
        "operators": list(_list_profiled(run, "operators")),
    }
    return {name: content for title, rows in tables.items() if rows for name, content in _write(title, rows)}


def _list_profiled(run: Run, what: str) -> Iterator[dict[str, Any]]:
    for records in run.variants:
        for case in records.profile.cases if records.profile is not None else ():
            yield from (_flatten(row, variant=records.name, case=case.case) for row in getattr(case, what))


def _flatten(record: Record, **keys: str) -> dict[str, Any]:
    """The fields of a record after `keys`; a field of several values is written as JSON."""
    fields = {**keys, **msgspec.to_builtins(record)}
    return {
        name: msgspec.json.encode(value).decode() if isinstance(value, list | tuple) else value
        for name, value in fields.items()
    }


def _write(title: str, rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, bytes]]:
    table = pandas.json_normalize(list(rows)).convert_dtypes()
    # where some rows have a record within them, the others have an empty column of its name
    table = table[[name for name in table if not any(other.startswith(f"{name}.") for other in table)]]
    yield f"{title}.csv", table.to_csv(index=False, lineterminator="\n").encode()
    packed = io.BytesIO()
    table.to_parquet(packed, index=False)
    yield f"{title}.parquet", packed.getvalue()
