"""Frontiers of many methods, told by few numbers: each against loops over the same table."""

import numpy as np
import pytest
from scipy.stats import spearmanr

import engine
from engine.data.beir import write_beir
from engine.evidence import frontiers
from engine.evidence.frontiers import DPP, FW, GREEDY, MMR, POLISHED, VRSD
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.rules import Finding
from engine.evidence.run import CLAIMS

METHODS = {FW: 11, POLISHED: 11, GREEDY: 11, MMR: 11, DPP: 11, VRSD: 1}
SERVED = ("C6", "C7", "C8", "C9", "C14", "V6", "V9")


def table(seed=0, queries=20):
    rng = np.random.default_rng(seed)
    metrics = ("recall", "ilad", "cos_sum")
    return {name: {m: rng.random((queries, width)) for m in metrics} for name, width in METHODS.items()}


def test_correlations_count_every_method_alike():
    of = table()
    told = frontiers.correlate_measures(of)
    assert len(told) == 4
    for start, weights in ((0, "all θ"), (5, "θ from .5")):
        places = [(of[name], at) for name in (MMR, DPP, FW, GREEDY) for at in range(start, 11)]
        places += [(of[VRSD], 0)] * (11 - start)
        own, recall, ilad = ([np.mean(t[m][:, at]) for t, at in places] for m in ("cos_sum", "recall", "ilad"))
        (_, a, b), (_, _, c), _ = spearmanr(np.array([own, recall, ilad]).T).statistic
        value, low, high = told[f"{weights}, Recall at equal ILAD"]
        assert value == pytest.approx((a - b * c) / np.sqrt((1 - b * b) * (1 - c * c))) and low < high
        assert told[f"{weights}, ILAD at equal Recall"][0] == pytest.approx(
            (b - a * c) / np.sqrt((1 - a * a) * (1 - c * c))
        )


def test_places_steps_and_spreads_by_loops():
    of, other = table(1), table(2)
    recall, ilad = (np.mean(of[MMR][m], axis=0) for m in ("recall", "ilad"))
    best = [all(not (ilad[j] >= ilad[i] and recall[j] >= recall[i]) for j in range(11) if j != i) for i in range(11)]
    assert frontiers.count_undominated(of[MMR]) == sum(best) and frontiers.count_undominated(of[VRSD]) == 1
    one, two = (sum(abs(m[i + 1] - m[i]) for i in (0, 1)) for m in (np.mean(of[DPP]["ilad"], axis=0), ilad))
    value, low, high = frontiers.step_ratio(of[DPP]["ilad"], of[MMR]["ilad"])
    assert value == pytest.approx(one / two) and low <= high
    apart = [np.mean([abs(of[FW]["ilad"][q, s] - other[FW]["ilad"][q, s]) / 2 for s in range(11)]) for q in range(20)]
    assert frontiers.compute_spread({10: of, 50: other}, FW) == pytest.approx(apart)


def test_areas_change_sign_when_the_methods_are_exchanged():
    """What lies above everywhere: the claims that need it hold, and the other way round they do not."""
    of = table(3)
    for name in (MMR, DPP, GREEDY, FW):
        of[name] = {
            "ilad": of[name]["ilad"] * 0.1 + np.linspace(1, 0, 11),
            "recall": np.linspace(0, 1, 11) + of[name]["recall"] * 0.1,
        }
    of[FW] = {metric: values + 0.3 for metric, values in of[MMR].items()}
    measured = {"areas": {"here, k 10": frontiers.compare_areas(of)}, "means": {}}
    assert CLAIMS["C6"].rule(measured).verdict is Finding.HOLDS
    of[FW], of[MMR], of[DPP] = of[MMR], of[FW], of[FW]
    assert (
        CLAIMS["C6"].rule({"areas": {"here, k 10": frontiers.compare_areas(of)}, "means": {}}).verdict
        is Finding.REFUTED
    )


@pytest.mark.deep
def test_one_measurement_serves_all_its_claims(tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    things = ["cats", "boats", "clouds", "violins", "bread", "chess"]
    documents = {f"{n}{part}": f"all about {thing} {part}" for n, thing in enumerate(things) for part in "abc"}
    qrels = engine.Qrels({str(n): {f"{n}a": 1, f"{n}b": 1} for n in range(6)})
    queries = engine.Queries(tuple(map(str, range(6))), tuple(f"tell me of {thing}" for thing in things))
    corpus = engine.Corpus(tuple(documents), tuple(documents.values()))
    folder = write_beir(engine.Dataset(corpus, queries, {"dev": qrels, "test": qrels}), tmp_path / "things")
    measured = frontiers.measure_frontiers.compute(list(JudgedSets(folder).select([])), 0)
    (of,) = frontiers.measure_tables(JudgedSets(folder)["things"], 0).values()
    assert {name: values["recall"].shape[1] for name, values in of.items()} == METHODS
    # Of one document's relevance all grids end at the same sets.
    assert all((of[name]["recall"][:, -1] == of[FW]["recall"][:, -1]).all() for name in (MMR, DPP, GREEDY, POLISHED))
    for name in SERVED:
        claim = CLAIMS[name]
        assert claim.measure is frontiers.measure_frontiers and claim.rule(measured).verdict in set(Finding)
