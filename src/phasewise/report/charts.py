"""From specifications to drawings, and the one script that makes the charts of all indexes answer to the pointer."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from typing import Any

import vl_convert

# the newest that it can draw
VEGA_LITE = vl_convert.get_vegalite_versions()[-1]


def draw_svg(spec: dict[str, Any], drawn: str = "") -> str:
    """The chart as SVG; nothing is loaded from anywhere.

    `drawn` is what was drawn before. It stands if it is of the same specification: machines have other fonts, by which widths
    differ by a pixel, and drawing is most of what a report takes.
    """
    mark = f"<!-- {_digest(spec)} -->"
    return (
        drawn
        if drawn.endswith(mark)
        else vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[]) + mark
    )


def _digest(spec: dict[str, Any]) -> str:
    """Of the specification, and of what draws it."""
    drawer = f"{vl_convert.get_vega_version()} {VEGA_LITE}"
    return hashlib.sha256(f"{drawer} {json.dumps(spec, sort_keys=True)}".encode()).hexdigest()[:16]


def script_stamp() -> str:
    """First line of the shared script: what it was bundled from."""
    embed, ours = vl_convert.get_vega_embed_version(), hashlib.sha256(_start().encode()).hexdigest()[:16]
    return f"/* Vega {vl_convert.get_vega_version()}, Vega-Lite {VEGA_LITE}, Vega-Embed {embed}, start {ours} */\n"


def bundle_script() -> str:
    """Vega, Vega-Lite, Vega-Embed and our few lines, in one file that works from a disk."""
    bundle = vl_convert.javascript_bundle(_start(), vl_version=VEGA_LITE)
    # names of the bundle stay its own
    return f"{script_stamp()}(function () {{\n{bundle}\n}})();\n"


def _start() -> str:
    return resources.files("phasewise.report").joinpath("templates/start.js").read_text(encoding="utf-8")
