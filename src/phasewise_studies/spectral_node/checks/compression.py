"""What must hold of the smaller networks of product/compress.py."""

from __future__ import annotations

from phasewise import CheckContext, Checked, Quantity
from phasewise_studies.spectral_node.product import compress


def compressed_holds(context: CheckContext) -> Checked:
    """INT8 weights, a pruned network and a 2-8-8-1 student against the full model, each at its own gate."""
    batch = context.inputs(0)
    whole = {name: value for name, value in batch.items() if name.startswith(("metric/", "flow/"))}
    full = 4 * sum(value.numel() for value in whole.values())
    made = {"INT8": compress.quantize(whole), "pruned": compress.prune(whole, 0.25), "student": compress.distil(whole)}
    errors = {
        name: compress.absorbance_error(whole, small, context.shape.wavelengths) for name, (small, _) in made.items()
    }
    held = [name for name, error in errors.items() if error <= compress.GATE]
    numbers = {f"error of A, {name}": Quantity(value=error) for name, error in errors.items()}
    numbers |= {f"bytes, {name}": Quantity(value=size, unit="B") for name, (_, size) in made.items()}
    return Checked(
        # INT8 has to hold; of the others the message says whether they do
        passed="INT8" in held,
        message=f"within {compress.GATE:.0%} of the spread of A: {', '.join(held) or 'none'} (of {', '.join(made)}); "
        f"the whole model has {full} bytes",
        numbers=numbers,
    )
