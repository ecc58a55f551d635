"""Claims about time, judged on times that are made up; documents that are drawn."""

import numpy as np
import pytest

from engine.evidence import latencies
from engine.evidence.latencies import FW, LATENCY_WEIGHTS, MMR, PLAIN_DPP, PLAIN_MMR
from engine.evidence.rules import Finding
from engine.evidence.run import CLAIMS


def times(powers, faster=1.0):
    """As the measure has them: a power of k a method, Frank–Wolfe's the less the larger the weight is."""
    sizes, rng, seconds = (10, 20, 50, 100, 200), np.random.default_rng(0), {}
    for method, power in powers.items():
        for weight in LATENCY_WEIGHTS:
            scale = 1e-3 * (1 - weight if method == FW else faster)
            seconds[f"{method}, θ {weight}"] = (scale * np.power(sizes, power) * rng.normal(1, 0.01, (9, 5))).tolist()
    return {"drawn, 100": {"sizes": sizes, "seconds": seconds}}


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (times({FW: 0.3, MMR: 0.6, PLAIN_MMR: 1.0, PLAIN_DPP: 1.2}), Finding.HOLDS),
        (times({FW: 1.3, MMR: 0.6, PLAIN_MMR: 0.5, PLAIN_DPP: 0.8}, faster=1e-3), Finding.REFUTED),
    ],
)
def test_claims_about_time_come_out_either_way(measured, expected):
    verdicts = {name: CLAIMS[name].rule(measured).verdict for name in ("C10", "C11", "C12")}
    # Frank–Wolfe gains from θ in both, which is a part of C12.
    last = expected if expected is Finding.HOLDS else Finding.PARTLY
    assert verdicts == {"C10": expected, "C11": expected, "C12": last}


def test_drawn_documents_are_near_their_cluster_and_queries_near_a_document():
    rows, points, member = latencies.draw_clusters(2000, 64, 8, seed=1)
    assert rows.norm(dim=1).numpy() == pytest.approx(np.ones(2000), abs=1e-6)
    cosines, alike = (rows @ rows.T).numpy(), (member[:, None] == member).numpy()
    np.fill_diagonal(alike, False)
    assert cosines[alike].mean() == pytest.approx(0.7, abs=0.05) and 0.1 < cosines[~alike].mean() < 0.35
    assert (points @ rows.T).amax(1).numpy() == pytest.approx(np.full(8, 0.9), abs=0.1)
    space, queries = latencies.draw_space(300, seed=0)
    assert len(space) == 300 and queries.vectors.shape[1] == latencies.N_DIMENSIONS
