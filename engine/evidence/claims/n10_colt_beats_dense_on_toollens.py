"""N10: COLT beats dense retrieval on ToolLens, and is about level with it on ToolBank."""

from collections.abc import Sequence

from engine.evidence.claim import Claim
from engine.evidence.rules import Ruling, Scope, difference, equivalence, together
from engine.evidence.trained_differences import ADAPTED, TRAINED_SETS, TrainedDifferences


def judge(cells: dict[str, Sequence[float]]) -> Ruling:
    level = {name: values for name, values in cells.items() if name.startswith("toolbank-numpy")}
    better = {name: values for name, values in cells.items() if name not in level}
    return together([difference(better, margin=1.0), equivalence(level, margin=2.0)])


CLAIM = Claim(
    id="N10",
    paper="nnn",
    place="Table 2",
    sentence="COLT beats dense retrieval on ToolLens, and is about level with it on ToolBank.",
    scope=Scope.STAND_IN,
    measure=TrainedDifferences(pairs=(("COLT", "dense"),)),
    rule=judge,
    sets=TRAINED_SETS,
    trained=True,
    effect="+12.1 points Comp@5 on ToolLens; +1.6, −0.6 and −0.1 on ToolBank's three",
    differs=f"{ADAPTED} Of ToolBank NumpyBank alone. COLT in code of our own, with 9 or 3 of its 21 settings tried. "
    "Level is our reading: within 2 points.",
    cost=1,
)
