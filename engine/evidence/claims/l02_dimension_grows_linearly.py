"""L2: the dimension that is needed grows as the bound's does, in proportion to (ε²/2 − ε³/3)⁻¹."""

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.projection_errors import projection_errors
from engine.evidence.rules import Effect, Ruling, Scope, bounded, equivalence, together

EXPONENT, R2 = 0.1, 0.95
"""How far from 1 an exponent may be, and how much of the dimensions' spread a line has to explain."""


def judge(measured: Measurement) -> Ruling:
    runs = {name: np.array(rows) for name, rows in measured["growth"].items()}
    factors = [float(rows[:, 2].mean()) for rows in runs.values()]
    exponents = equivalence(
        {f"{name}: exponent less 1": (rows[:, 0] - 1).tolist() for name, rows in runs.items()}, EXPONENT
    )
    straight = bounded([Effect(name=f"{name}: R²", value=float(rows[:, 1].mean())) for name, rows in runs.items()], R2)
    both = together([exponents, straight])
    why = f"{both.why} The bound asks for {min(factors):.1f} to {max(factors):.1f} times the dimension that is needed."
    return Ruling(verdict=both.verdict, why=why, effects=both.effects, needed=both.needed, open=both.open)


CLAIM = Claim(
    id="L2",
    paper="sparse-dense",
    place="§2.1.3, Fig. 2",
    sentence="The dimension that keeps 95 % of pairs grows linearly in (ε²/2 − ε³/3)⁻¹: the bound is tight up to a "
    "constant factor.",
    scope=Scope.STAND_IN,
    measure=projection_errors,
    rule=judge,
    sets=("cranfield", "perspectrum"),
    effect="k* ≤ 8.76 (ε²/2 − ε³/3)⁻¹ at β = .05",
    differs="Cranfield and Perspectrum for TREC-CAR; k up to 4,096, not 9,472; Gaussian projections and boolean "
    "weights too. Linear: an exponent of 1 to within .1, and a line that explains 95 % of the spread.",
    cost=150,
)
