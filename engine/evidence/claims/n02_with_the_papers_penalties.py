"""N2: what dense retrieval gets right, the elastic net gets right for some λ of the paper's grid."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.exact_sets import AS_DEFINED, RECOVERY_SETS, exact_sets
from engine.evidence.rules import Ruling, Scope, share, thresholds


def judge(measured: Measurement) -> Ruling:
    shares = [share(f"{name}: share of them", of_set["both"], of_set["dense"]) for name, of_set in measured.items()]
    return thresholds(shares, holds=0.95, refuted=0.5)


CLAIM = Claim(
    id="N2",
    paper="nnn",
    place="Theorem 1, §3.1",
    sentence="Whatever set dense retrieval finds exactly, NNN finds exactly too, for a λ₁ and λ₂ of the paper's grid.",
    scope=Scope.STAND_IN,
    measure=exact_sets,
    rule=judge,
    sets=RECOVERY_SETS,
    differs=f"{AS_DEFINED} The paper says it of some λ, not of its grid: the theorem's λ₂ is 3k − 1 at least, and the "
    "grid ends at 1.",
    cost=25,
)
