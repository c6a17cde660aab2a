"""Types of the fields of the contract: each with its range, and with the words for what is allowed."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

# `profiles/default` is Snakemake's run profile; the others are names of stages of dvc.yaml or folders of ours
RESERVED = ("captures", "default", "gpu", "index", "machine", "machines", "records", "slurm")
NOT_RESERVED = rf"(?!(?:{'|'.join(RESERVED)})\Z)"
# a terminal obeys control characters, and no file holds half a character
TEXT = r"\A[^\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]*\Z"
# far beyond what is sensible, and products of several are still numbers
LARGEST = 1e60
MOST_TEXT = 100_000

Text = Annotated[str, Meta(pattern=TEXT, max_length=MOST_TEXT, description="text without control characters")]
Said = Annotated[
    str,
    Meta(pattern=TEXT.replace(r"\A", r"\A(?=.*\S)"), max_length=MOST_TEXT, description="text, and not an empty one,"),
]
# a name becomes a folder; of a variant, with a number or "without-" before it
WorkloadName = Annotated[
    str,
    Meta(
        pattern=rf"\A{NOT_RESERVED}[a-z][a-z0-9_]{{0,63}}\Z",
        description=f"a name of 1 to 64 lower-case letters, digits and _, other than {', '.join(RESERVED)},",
    ),
]
Name = Annotated[
    str,
    Meta(
        pattern=rf"\A{NOT_RESERVED}[a-z0-9][a-z0-9-]{{0,55}}\Z",
        description=f"a name of 1 to 56 lower-case letters, digits and -, other than {', '.join(RESERVED)},",
    ),
]
CheckName = Annotated[
    str,
    Meta(
        pattern=r"\A[a-z_][a-z0-9_-]{0,63}\Z",
        description="the name of a function with dashes for underscores, up to 64 characters,",
    ),
]
ModuleName = Annotated[
    str, Meta(pattern=r"\A[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", description="the dotted name of a module")
]
# "" is the file that the workload stands in
ProgramName = Annotated[
    str,
    Meta(pattern=r"\A(|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)\Z", description='the dotted name of a module, or "",'),
]
VariableName = Annotated[
    str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", description="the name of an environment variable")
]
SwitchName = Annotated[str, Meta(pattern=r"\A[^\W\d]\w{0,63}\Z", description="a name as Python has them")]

Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST, description="a finite number")]
Positive = Annotated[float, Meta(gt=0, le=LARGEST, description="a finite number above 0")]
NotNegative = Annotated[float, Meta(ge=0, le=LARGEST, description="a finite number, 0 or more,")]
# a result that is off by a tenth of itself is another result
MOST_RELATIVE = 0.1
Relative = Annotated[float, Meta(ge=0, le=MOST_RELATIVE, description=f"a number from 0 to {MOST_RELATIVE}")]
PerCent = Annotated[float, Meta(ge=0, le=100, description="0 to 100 per cent")]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, description="a whole number of at most 64 bits")]
Steps = Annotated[int, Meta(ge=1, le=1000, description="a whole number from 1 to 1000")]
Items = Annotated[int, Meta(ge=1, le=2**40, description="a whole number of items, 1 or more,")]
Count = Annotated[int, Meta(ge=0, le=2**40, description="a whole number, 0 or more,")]
Gpus = Annotated[int, Meta(ge=0, le=1024, description="a whole number from 0 to 1024")]
Ranks = Annotated[int, Meta(ge=1, le=1024, description="a whole number of processes from 1 to 1024")]
Version = Annotated[int, Meta(ge=0, le=99, description="a whole number from 0 to 99")]
ByteCount = Annotated[int, Meta(ge=0, le=2**60, description="a whole number of bytes, 0 or more,")]
ByteLimit = Annotated[int, Meta(ge=1, le=2**60, description="a whole number of bytes, 1 or more,")]
TimesBaseline = Annotated[float, Meta(ge=1, le=1e12, description="a number from 1 to 1e12")]

TIERS = ("strict", "moderate", "relaxed")
Size = Annotated[str, Meta(pattern=r"\A(tiny|small|full)\Z", description="one of 'tiny', 'small', 'full'")]
Tier = Annotated[str, Meta(pattern=rf"\A({'|'.join(TIERS)})\Z", description=f"one of {str(TIERS)[1:-1]}")]
# whose product has a measured rate
Rated = Literal["float32", "float64", "tf32", "bfloat16", "float16"]
