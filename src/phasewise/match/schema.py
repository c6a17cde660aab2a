"""What `phasewise judge --json` writes, as a JSON schema: `docs/judge.schema.json` is what `render_schema` returns."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from phasewise.records.judgement import SCHEMA, Match


def render_schema() -> str:
    """The schema of a `Match`."""
    found = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"phasewise judge --json, schema {SCHEMA}",
        **msgspec.json.schema(Match),
    }
    return json.dumps(found, indent=2) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_schema())
