"""N17: trained for, one penalty is as good as both."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope, equivalence
from engine.evidence.trained_differences import ADAPTED, TRAINED_SETS, TrainedDifferences

CLAIM = Claim(
    id="N17",
    paper="nnn",
    place="§4.2, Tables 1, 2",
    sentence="Once embeddings are trained for it, λ₁ alone and λ₂ alone are competitive with both.",
    scope=Scope.STAND_IN,
    measure=TrainedDifferences(pairs=(("L1-Tr", "NNN-Tr, implicit + ours"), ("L2-Tr", "NNN-Tr, implicit + ours"))),
    rule=partial(equivalence, margin=1.0),
    sets=TRAINED_SETS,
    trained=True,
    effect="63.1 and 62.7 against 63.1 (NumpyBank), 96.3 and 97.0 against 97.0 % Comp@5 (ToolLens)",
    differs=f"{ADAPTED} Competitive: within a point. All three are trained with implicit gradients and a loss that is "
    "not the paper's.",
    cost=1,
)
