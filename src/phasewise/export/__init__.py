"""The export stage: one variant as files that run without Phasewise, each reloaded, compared and timed."""

from phasewise.export.variant import export_variant

__all__ = ["export_variant"]
