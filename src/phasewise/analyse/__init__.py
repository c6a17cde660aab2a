"""The analyse stage: findings, predictions, verdicts, targets and risks, from records alone."""

from phasewise.analyse.experience import read_ledgers
from phasewise.analyse.findings import CATALOGUE
from phasewise.analyse.predict import predict_variant
from phasewise.analyse.run import analyse_run
from phasewise.analyse.summary import make_summary, summarise
from phasewise.analyse.variant import analyse_variant

__all__ = [
    "CATALOGUE",
    "analyse_run",
    "analyse_variant",
    "make_summary",
    "predict_variant",
    "read_ledgers",
    "summarise",
]
