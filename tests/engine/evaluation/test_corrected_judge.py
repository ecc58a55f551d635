"""A person's means corrected by a model's: an oracle with loops, laws, what is refused, and what is said."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from engine import DataError, Decoder, Qrels, compare, decide, exact_frontier, make
from engine.evaluation.corrected_judge import JUDGE_ENTRY, correct_means, name_judge, pair_with_model
from engine.evaluation.decide import estimate_options
from engine.evaluation.paired import align_on_common_queries
from engine.evaluation.statistics import describe_comparison
from engine.evaluation.sweep.cell import Cell as StoredCell
from engine.evaluation.sweep.sweep import sweep
from support.points import cell
from support.sweeps import toy

N, N_PERSON = 300, 40
IDS = tuple(f"q{i:04}" for i in range(N))


def draw_values(seed=0, noise=0.1):
    """Values of a person and of a model on the same queries, for a baseline and a setting."""
    rng = np.random.default_rng(seed)
    base = rng.choice([0.2, 0.4, 0.6, 0.8], N)
    change = rng.normal(-0.02, 0.2, N)
    person = np.stack([base, base + change], axis=1)
    return person, person + rng.normal(0.05, noise, (N, 2))


def make_cells(values, queries, **more):
    """Cells of Top-k and VRSD with Recall; ILAD is that of the query, whoever judges."""
    rows = [IDS.index(query) for query in queries]
    ilad = 0.4 + 0.01 * np.sin(np.arange(N))[rows]
    return [
        cell(name, {"recall": values[:, i], "ilad": ilad * (1 + 0.2 * i)}, queries=tuple(queries), **more)
        for i, name in enumerate(("top_k", "vrsd"))
    ]


def both_judged(seed=0, noise=0.1, n_person=N_PERSON):
    """Cells as the person judged the first queries, and as the model judged all."""
    person, model = draw_values(seed, noise)
    return make_cells(person[:n_person], IDS[:n_person]), make_cells(model, IDS)


def explain_by_loops(person, judged, other):
    """The corrected mean and standard error of one column, one query at a time: METHODS' formulas and the jackknife."""
    n, rest = len(person), len(other)
    covariance = np.cov(person, judged, bias=True)
    slope = covariance[0, 1] / covariance[1, 1]
    weight = min(max(slope / (1 + n / rest), 0), 1)
    mean = np.mean(person) + weight * (np.mean(other) - np.mean(judged))
    squares = 0.0
    for i in range(n):
        leverage = 1 / n + (judged[i] - np.mean(judged)) ** 2 / np.sum((judged - np.mean(judged)) ** 2)
        residual = person[i] - np.mean(person) - weight * (judged[i] - np.mean(judged))
        squares += (residual / (1 - leverage)) ** 2
    variance = squares / n * (n - 1) / n / n + weight**2 * np.var(other, ddof=1) / rest
    return mean, np.sqrt(variance), weight


@pytest.mark.parametrize("seed", range(4))
def test_correct_means_equals_formulas_in_loops(seed):
    rng = np.random.default_rng(seed)
    judged, other = rng.normal(size=(25, 3)), rng.normal(0.3, 1, size=(70, 3))
    person = judged * np.array([0.9, 0.6, 1.4]) + 0.4 * rng.normal(size=(25, 3))
    result = correct_means(person, judged, other)
    for column in range(3):
        mean, std_error, weight = explain_by_loops(person[:, column], judged[:, column], other[:, column])
        assert result.weights[column] == pytest.approx(weight, rel=1e-12) and weight > 0
        assert result.mean[column] == pytest.approx(mean, rel=1e-12)
        assert result.std_error[column] == pytest.approx(std_error, rel=1e-12)
    low, high = result.find_ends(0.95)
    margin = stats.t.ppf(0.975, 24) * result.std_error
    assert np.allclose([low, high], [result.mean - margin, result.mean + margin], rtol=1e-12)


def test_judge_that_is_always_right_gives_the_mean_over_all_queries():
    values = np.random.default_rng(1).normal(size=(90, 1))
    result = correct_means(values[:30], values[:30], values[30:])
    assert result.weights[0] == pytest.approx(60 / 90) and result.mean[0] == pytest.approx(values.mean())


def test_interval_is_never_wider_than_the_persons_own():
    rng = np.random.default_rng(2)
    person, model = rng.normal(size=(25, 500)), rng.normal(size=(300, 500))
    result = correct_means(person, model[:25], model[25:])
    own = person.std(0, ddof=1) / 5
    assert (result.std_error <= own * (1 + 1e-12)).all()
    is_left = result.weights == 0
    # A judge that knows nothing is left out in most draws, and then the person's mean and error stand as they are.
    assert is_left.mean() > 0.5
    assert np.allclose(result.mean[is_left], person.mean(0)[is_left], rtol=0, atol=1e-12)
    assert np.allclose(result.std_error[is_left], own[is_left])


def test_constant_model_and_no_other_query_change_nothing():
    person = np.random.default_rng(3).normal(size=(20, 1))
    for judged, other in ((np.ones((20, 1)), np.ones((9, 1))), (person, np.empty((0, 1)))):
        result = correct_means(person, judged, other)
        assert result.weights[0] == 0 and result.mean[0] == pytest.approx(person.mean())


def test_interval_covers_with_a_judge_that_is_wrong_on_average():
    rng = np.random.default_rng(4)
    n_draws, truth = 4000, 0.1
    person = rng.normal(truth, 1, size=(200, n_draws))
    model = 0.8 * person + rng.normal(0.5, 0.4, size=person.shape)
    result = correct_means(person[:30], model[:30], model[30:])
    low, high = result.find_ends(0.95)
    covered = ((low <= truth) & (truth <= high)).mean()
    own_width = 2 * stats.t.ppf(0.975, 29) * person[:30].std(0, ddof=1) / np.sqrt(30)
    assert 0.94 <= covered <= 0.975
    assert (high - low).mean() < 0.65 * own_width.mean()


def test_query_without_a_relevant_document_counts_as_the_mean():
    """The mean over the queries with a value is a ratio; its linear form has the delta method's variance."""
    person, model = both_judged()
    unfound = [replace(point, values={**point.values, "recall": point.values["recall"].copy()}) for point in person]
    for point in unfound:
        point.values["recall"][[3, 8]] = np.nan
    unfound = [replace(point, counts={"judged": np.ones(N_PERSON), "returned": np.ones(N_PERSON)}) for point in unfound]
    aligned = align_on_common_queries(unfound, ("recall",), 10)
    restricted, values = pair_with_model(aligned, model, "recall", None)
    assert len(restricted.queries) == N_PERSON - 2 and len(values.judged_queries) == N_PERSON
    gains = restricted.values["recall"][:, 1:] - restricted.values["recall"][:, :1]
    spread = values.spread_person_values(gains, restricted.queries)
    assert spread.mean() == pytest.approx(gains.mean())
    # Var of Σzy/Σz: Σ(z(y − mean))² / (Σz)².
    delta = ((gains - gains.mean()) ** 2).sum() / len(gains) ** 2
    assert spread.var() / N_PERSON == pytest.approx(delta)


def test_compare_corrects_each_setting_and_says_by_which_test():
    person, model = both_judged()
    (row,) = compare(person, "recall", person[0], model_judged=name_judge_of(model, "Orakel"))
    gains = person[1].values["recall"] - person[0].values["recall"]
    others = model[1].values["recall"] - model[0].values["recall"]
    mean, std_error, weight = explain_by_loops(gains, others[:N_PERSON], others[N_PERSON:])
    margin = stats.t.ppf(0.975, N_PERSON - 1) * std_error
    assert row.difference == pytest.approx(mean) and row.judge.weight == pytest.approx(weight)
    assert (row.single_low, row.single_high) == pytest.approx((mean - margin, mean + margin))
    assert row.p == pytest.approx(2 * stats.t.sf(abs(mean) / std_error, N_PERSON - 1))
    assert row.judge.narrowing == pytest.approx(std_error / stats.sem(gains)) and row.judge.narrowing < 0.8
    assert "by Student's t; judged by Orakel on 300 queries, corrected by 40 of yours" in describe_comparison(row)
    (alone,) = compare(person, "recall", person[0])
    assert alone.judge is None and "Student" not in describe_comparison(alone)


def name_judge_of(cells, judge):
    """Give stand-ins for cells a provenance."""
    for point in cells:
        object.__setattr__(point, "provenance", {JUDGE_ENTRY: judge})
    return cells


def test_name_judge_adds_the_name_to_the_provenance():
    stored = StoredCell(
        decoder={}, label="", method="", k=1, split="", queries=(), values={}, mean={}, left_out=0, returned=0.0,
        milliseconds=0.0, provenance={"qrels": "d"}, key="", digest="",
    )  # fmt: skip
    (named,) = name_judge([stored], "M")
    assert named.provenance == {"qrels": "d", JUDGE_ENTRY: "M"} and stored.provenance == {"qrels": "d"}


def test_decide_corrects_losses_and_takes_gains_of_all_queries():
    person, model = both_judged(noise=0.05)
    alone, both = estimate_options(person), estimate_options(person, model_judged=name_judge_of(model, "Orakel"))
    assert both.losses.std_error[0] < 0.6 * alone.losses.std_error[0]
    gains = person[1].values["recall"] - person[0].values["recall"]
    others = model[1].values["recall"] - model[0].values["recall"]
    # One setting has one weight, so the corrected mean is that of the formulas.
    mean, std_error, _ = explain_by_loops(gains, others[:N_PERSON], others[N_PERSON:])
    base = person[0].values["recall"].mean()
    assert both.losses.mean[0] == pytest.approx(mean / base)
    assert both.losses.std_error[0] == pytest.approx(std_error / base, rel=0.01)
    option = both.build_option(0, 0.9)
    assert option.share_kept == pytest.approx(1 + mean / base) and option.gain == pytest.approx(0.2)
    assert both.find_means(person[1].label)[0] == pytest.approx(model[1].values["ilad"].mean())
    decision = decide(person, keep=0.8, model_judged=model)
    origin = "Chosen on queries of test, judged by Orakel on 300 queries, corrected by 40 of yours."
    assert origin in decision.sentences and decision.judge.person_queries == N_PERSON
    assert decision.as_json()["judge"]["model_queries"] == N
    assert any(text.startswith("That narrows the intervals to ") for text in decision.sentences)
    assert decide(person, keep=0.8).judge is None


def test_samples_of_a_decision_spread_as_its_errors_say():
    person, model = both_judged()
    estimates = estimate_options(person, model_judged=model)
    means = estimates._samples.means[:, 0]
    assert means.std() == pytest.approx(estimates.losses.std_error[0], rel=0.15)
    assert means.mean() == pytest.approx(estimates.losses.mean[0], abs=0.02)


def test_judge_that_knows_nothing_leaves_the_persons_decision():
    person, model = both_judged()
    constant = [replace(point, values={**point.values, "recall": np.full(N, 0.5)}) for point in model]
    alone, both = decide(person), decide(person, model_judged=constant)
    assert both.judge.weight == 0 and both.judge.correlation is None
    assert [option.chance for option in both.options] == pytest.approx([option.chance for option in alone.options])
    assert "What a model judged narrows nothing here, so your 40 queries alone count." in both.sentences


def test_judge_that_goes_against_the_person_is_refused():
    person, model = both_judged(noise=0.02)
    reversed_cells = [replace(model[0], values=model[1].values), replace(model[1], values=model[0].values)]
    for call in (lambda: decide(person, model_judged=reversed_cells),
                 lambda: compare(person, "recall", person[0], model_judged=reversed_cells)):  # fmt: skip
        with pytest.raises(DataError, match=r"better than chance; on 40 queries .*correlation −0\.9"):
            call()


def test_missing_setting_few_queries_and_other_vectors_are_refused():
    person, model = both_judged()
    with pytest.raises(DataError, match="model_judged must have every setting of points; 1 of 2 are missing"):
        decide(person, model_judged=model[:1])
    few, _ = both_judged(n_person=4)
    with pytest.raises(DataError, match="must share 5 queries with points that have recall, or more; got 4"):
        decide(few, model_judged=model)
    other = name_judge_of(both_judged()[1], "M")
    for point in other:
        point.provenance["embeddings"] = "another"
    with pytest.raises(DataError, match="of the same embeddings as points"):
        decide(person, model_judged=other)


def judge_toy():
    """Top-k and VRSD of a toy space with a curve of MMR, by a person on 25 queries and by a model on all 59."""
    space, queries, qrels = toy(batch=60)
    rng, documents = np.random.default_rng(0), space.corpus.ids
    person, model = {}, {}
    for number, (query, grades) in enumerate(qrels.grades.items()):
        pool = {**dict.fromkeys(documents[::3], 0), **grades}
        person |= {query: pool} if number < 25 else {}
        model[query] = {doc: int(rng.random() < (0.8 if grade else 0.1)) for doc, grade in pool.items()}
    judges = {
        "": (Qrels(person, judgements="complete"), queries.take(range(25))),
        "M": (Qrels(model, judgements="complete"), queries),
    }
    decoders = [Decoder(make("top_k")), Decoder(make("vrsd"))]
    arguments = {"k": 5, "metrics": ("recall", "ilad")}
    points = {
        name: [
            *name_judge(sweep(decoders, space, judged, grades, **arguments), name),
            exact_frontier(make("mmr"), space, judged, grades, resamples=100, **arguments),
        ]
        for name, (grades, judged) in judges.items()
    }
    return points, judges


def test_curves_are_corrected_at_the_persons_values_and_from_the_next_grade():
    points, _ = judge_toy()
    decision, alone = decide(points[""], k=5, model_judged=points["M"]), decide(points[""], k=5)
    assert len(decision.options) == len(alone.options) == 102 and decision.judge.judge == "M"
    labels = {option.label for option in decision.options}
    assert labels == {option.label for option in alone.options}
    widths = [sum(option.high - option.low for option in each.options) for each in (decision, alone)]
    assert widths[0] < 0.95 * widths[1]
    # The model has no second grade: what it judged still corrects, as it needs only to agree in part.
    assert decision.next_level.judge.person_queries == 25 and decision.next_level.judge.weight > 0


def test_pooled_ends_hold_the_corrected_share():
    points, _ = judge_toy()
    person_cells = points[""][:2]
    pooled = [replace(point, provenance={**point.provenance, "judgements": "pooled"}) for point in person_cells]
    complete = estimate_options(person_cells, k=5, model_judged=points["M"][:2])
    both = estimate_options(pooled, k=5, model_judged=points["M"][:2])
    assert both.losses.mean == pytest.approx(complete.losses.mean)
    (low,), (high,) = both.intervals
    (complete_low,), (complete_high,) = complete.intervals
    # Many documents are unjudged, so they decide more than chance does.
    assert low < complete_low and high > complete_high
