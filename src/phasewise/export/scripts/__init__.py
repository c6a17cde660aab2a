"""Scripts that are copied beside an export as `infer.py`; they import nothing of Phasewise."""
