"""Layer norm and its gradient: from seven operators to one Triton pass each way. Imports no torch."""

from phasewise import Case, Idea, Needs, Phase, Shape, Workload
from phasewise_studies.layer_norm.goals import SUMS, TARGETS, TIERS
from phasewise_studies.layer_norm.switches import Switches

# the width of `tiny` is no power of two, so that every gate on a CPU meets the end of a row
CASE = Case(
    tiny=Shape(rows=100, width=1000), small=Shape(rows=8192, width=1024), full=Shape(rows=8192, width=4096),
    inputs="resident", export=False,
)  # fmt: skip

workload = Workload(
    summary="Layer norm over the rows of a matrix, forward and backward",
    switches=Switches,
    program="phasewise_studies.layer_norm.program",
    # y; y, dx, dw and db
    cases={"forward": CASE, "train": CASE},
    phases=(
        Phase(
            "one-pass", {"norm": "one-pass"}, because=Idea("mean(x^2) - mean(x)^2 needs no second sweep over the row"),
            keep=False, must="INVALID", method="variance from two sums, of which nothing is left where the mean is large",
        ),
        Phase("native", {"norm": "native"}, because="fusible-chain", expect=(3, 7), method="PyTorch's own kernels"),
        Phase(
            "compile", {"norm": "compile"}, because=Idea("the compiler may share what dx, dw and db read"),
            expect=(0.8, 1.3), keep=False, method="torch.compile of the baseline",
        ),
        Phase(
            "triton", {"norm": "triton"}, because="excess-traffic", expect=(1, 1.6), risks=(SUMS,),
            needs=Needs(cuda=True, modules=("triton",), capability=(7, 5)), method="one Triton kernel each way",
        ),
    ),
    targets=TARGETS,
    tiers=TIERS,
)  # fmt: skip
