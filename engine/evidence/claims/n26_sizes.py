"""N26: the data sets are as large as the paper's table says."""

from collections.abc import Mapping, Sequence

from engine.data.sizes import DataSizes, sizes_of
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, theorem

PRINTED: Mapping[str, Mapping[str, float]] = {
    "toollens": {
        "documents": 464, "train": 13_515, "dev": 3_378, "test": 1_877, "least": 1, "most": 3, "mean": 2.66
    },
    "toolbank-numpy": {"documents": 511, "queries": 1_998},
    "multihop-rag-summ500": {"documents": 609},
}  # fmt: skip
"""Table 3, as far as the sets here hold the same: of NumpyBank the validation split, of MultiHop-RAG the documents."""


def measure(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set → its numbers as Table 3 has them."""
    return {judged.name: _counts(sizes_of(judged.dataset)) for judged in sets if judged.name in PRINTED}


def _counts(sizes: DataSizes) -> dict[str, float]:
    counts: dict[str, float] = {"documents": sizes.documents, "queries": sizes.queries}
    for split in sizes.splits:
        counts[split.split] = split.queries
        if split.split == "test" and split.relevant:
            counts |= {"least": split.relevant.least, "most": split.relevant.most}
            counts["mean"] = round(split.relevant.mean, 2)
    return counts


def judge(measured: Measurement) -> Ruling:
    apart = [abs(measured[name][what] - printed) for name in measured for what, printed in PRINTED[name].items()]
    return theorem(apart, sum(map(len, PRINTED.values())))


CLAIM = Claim(
    id="N26",
    paper="nnn",
    place="Appendix B.1, Table 3",
    sentence="The data sets have as many documents, queries and relevant documents as the paper's table says.",
    scope=Scope.SAME_DATA,
    measure=measure,
    rule=judge,
    sets=tuple(PRINTED),
    differs="Ten of the table's 35 numbers: PandasBank and AWSBank are not here, of two other sets only parts.",
    cost=1,
)
