"""Use what was trained: python -m phasewise_studies.lior.product.use retrieve|bank|step RUN ...

retrieve RUN TOKENS --out FILE    the states that the trained memory gives for tokens (N, 8), after a free phase
bank RUN --out FILE               the memory bank, for `train --bank` or any other program
step RUN --out FOLDER             the trained step for programs without Phasewise: torch.export, ONNX, a script
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import torch
from torch import Tensor

from phasewise.records.errors import UserError, report_errors
from phasewise_studies.lior.eager import ignore_progress, run_phase
from phasewise_studies.lior.product.export import export_step
from phasewise_studies.lior.product.files import Parser, check_tensor, log_to_stdout, read_tensors, write_tensors
from phasewise_studies.lior.product.run_folder import read_checkpoint, read_sizes_of
from phasewise_studies.lior.product.start import order_bank
from phasewise_studies.lior.product.trainer import set_precision
from phasewise_studies.lior.state import place_memory
from phasewise_studies.lior.switches import Switches
from phasewise_studies.lior.window import COORDINATES, Sizes

log = logging.getLogger("phasewise.lior")

QUICK = Switches(retrieval="product", fused_lior=True, in_place=True, cached_rotation=True, progress_every=0)


def make_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = Parser(prog="use", description=(__doc__ or "").split("\n\n")[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind in ("retrieve", "bank", "step"):
        sub = kinds.add_parser(kind)
        sub.add_argument("run", type=Path, metavar="RUN")
        if kind == "retrieve":
            sub.add_argument("tokens", type=Path, metavar="TOKENS", help="a file with tokens (N, 8)")
        sub.add_argument("--out", type=Path, required=True)
    return parser


@report_errors
def main() -> None:
    """Entry point; exit code 2 on a mistake."""
    log_to_stdout()
    options = make_parser().parse_args()
    sizes = read_sizes_of(options.run)
    windows, tensors = read_checkpoint(options.run)
    if options.out.exists():
        raise UserError(f"{options.out}: it is there already; give another --out, nothing is overwritten.")
    if options.kind == "retrieve":
        tokens = read_tokens(options.tokens)
        found = retrieve(tensors, tokens, sizes)
        write_tensors(options.out, found)
        log.info("%s: %d tokens after %d windows, LIoR %.5f", options.out, len(tokens), windows, found["lior"].mean())
    elif options.kind == "bank":
        bank = order_bank(tensors)
        write_tensors(options.out, bank)
        log.info("%s: %d rows after %d windows", options.out, len(bank["coords"]), windows)
    else:
        for line in export_step(tensors, sizes, options.out):
            log.info("%s", line)


def read_tokens(path: Path) -> Tensor:
    """`tokens` (N, 8) of a file; N at least 1.

    :raises UserError: they are missing or don't fit
    """
    found = read_tensors(path)
    if "tokens" not in found:
        raise UserError(f"{path}: tokens are missing, it has {', '.join(sorted(found)) or 'nothing'}.")
    tokens = check_tensor(path, "tokens", found["tokens"], ("N", COORDINATES))
    if not len(tokens):
        raise UserError(f"{path}: 'tokens' has no rows; give one at least.")
    return tokens


def retrieve(state: dict[str, Tensor], tokens: Tensor, sizes: Sizes) -> dict[str, Tensor]:
    """A free phase for batches of the training's size, nothing updated, every batch from the trained field.

    Returns:
        retrieved (N, d) and coordinates (N, 8) at the last step; lior, one for each batch. In the feedback mode the tokens of a
        batch share a field, so what one gets depends on its neighbours, as in training.
    """
    set_precision()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    memory = place_memory(state, device)
    retrieved, coordinates, lior = [], [], []
    for batch in tokens.to(device).split(sizes.batch):
        ran = run_phase(memory, {"tokens": batch}, sizes, QUICK, 0.0, None, ignore_progress)
        retrieved.append(ran.retrieved[-1])
        coordinates.append(ran.coordinates[-1])
        lior.append(ran.lior)
    return {"retrieved": torch.cat(retrieved), "coordinates": torch.cat(coordinates), "lior": torch.stack(lior)}


if __name__ == "__main__":
    main()
