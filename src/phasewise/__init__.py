"""Phasewise: make a PyTorch workload fast one phase at a time, and prove each step."""

from phasewise.model.data import data_folder
from phasewise.model.program import Chart, CheckContext, Checked, Program, Quantity, Series
from phasewise.model.workload import (
    Case,
    Check,
    Idea,
    Needs,
    Peer,
    Phase,
    Risk,
    Shape,
    Target,
    Tolerance,
    Unsupported,
    Work,
    Workload,
)

__version__ = "0.1.0"

__all__ = [
    "Case",
    "Chart",
    "Check",
    "CheckContext",
    "Checked",
    "Idea",
    "Needs",
    "Peer",
    "Phase",
    "Program",
    "Quantity",
    "Risk",
    "Series",
    "Shape",
    "Target",
    "Tolerance",
    "Unsupported",
    "Work",
    "Workload",
    "data_folder",
]
