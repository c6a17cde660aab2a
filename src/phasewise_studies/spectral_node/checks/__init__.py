"""What must hold of any right result, whatever computed it: a function for each check that phases.py names."""

from phasewise_studies.spectral_node.checks.compression import compressed_holds
from phasewise_studies.spectral_node.checks.geodesics import (
    all_transitions,
    closed_form_agrees,
    invariant,
    lookup_exact,
    nodes_resolve,
    odd_sizes,
)
from phasewise_studies.spectral_node.checks.proposals import proposals_measured
from phasewise_studies.spectral_node.checks.quality import five_hundred_epochs, leave_one_out, real_spectra
from phasewise_studies.spectral_node.checks.training import gradients_agree, largest_batch, overflow_is_counted

__all__ = [
    "all_transitions",
    "closed_form_agrees",
    "compressed_holds",
    "five_hundred_epochs",
    "gradients_agree",
    "invariant",
    "largest_batch",
    "leave_one_out",
    "lookup_exact",
    "nodes_resolve",
    "odd_sizes",
    "overflow_is_counted",
    "proposals_measured",
    "real_spectra",
]
