"""Intervals, the randomisation test, Holm and the sentence: against scipy, by hand, and by their properties."""

import inspect
import re
from dataclasses import replace
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from engine.errors import DataError, ParamError
from engine.evaluation import frontier, statistics, stratification
from engine.evaluation import paired as pairing
from engine.evaluation.paired import (
    align_on_common_queries,
    describe_guarantee,
    format_decoder_call,
    format_stage,
    format_stage_call,
    short_names,
)
from engine.evaluation.statistics import (
    WinCounts,
    bootstrap_intervals,
    compare,
    correct_holm,
    describe_comparison,
    estimate_mean_intervals,
    estimate_queries_needed,
    resolve_baseline,
    summarize_comparisons,
)
from engine.stages import make, methods
from support.draws import deepen, examples
from support.points import cell, interval, p_value, recalls

SHORT_PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=8)


def test_holm_by_hand():
    """Four tests: .005 × 4, .01 × 3, .03 × 2, and .04 × 1 pulled up to the one before."""
    assert correct_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert correct_holm([0.4, 0.6]) == pytest.approx([0.8, 0.8])
    assert correct_holm([]).shape == (0,)
    for bad in ([0.1, np.nan], [1.2], [[0.1]]):
        with pytest.raises(DataError, match="pvalues"):
            correct_holm(bad)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), max_size=8), st.sampled_from([0.01, 0.05, 0.3]))
def test_holm_rejects_what_its_steps_reject(p, alpha):
    rejected = set()
    for step, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[i] * (len(p) - step) > alpha:
            break
        rejected.add(i)
    assert {i for i, corrected in enumerate(correct_holm(p)) if corrected <= alpha} == rejected


def mean_difference(a, b, axis):
    return a.mean(axis) - b.mean(axis)


@settings(max_examples=examples(60), deadline=None)
@given(SHORT_PAIRS)
def test_p_value_counts_rounded_ties_as_ties(pairs):
    """Sixths, as recalls are, against whole numbers."""
    d = [a - b for a, b in pairs]
    sums = [abs(sum(s * v for s, v in zip(signs, d, strict=True))) for signs in product([1, -1], repeat=len(d))]
    want = sum(s >= abs(sum(d)) for s in sums) / len(sums)
    a, b = np.array(pairs).T / 6
    assert p_value(a, b) == pytest.approx(want)
    assert p_value([0.5], [0.0]) == 1


def test_many_queries_are_tested_as_scipy_does():
    for seed, shift in ((0, 0.0), (1, 0.1)):
        a, b = recalls(seed, shift=shift), recalls(seed + 10)
        draw_options = {"n_resamples": 9999, "batch": 1000, "rng": np.random.default_rng(seed)}
        want = stats.permutation_test(
            (a, b), mean_difference, permutation_type="samples", vectorized=True, **draw_options
        )
        noise = 4 * np.sqrt(max(want.pvalue, 1e-3) / 9999) + 2e-4
        assert p_value(a, b, seed=seed) == pytest.approx(want.pvalue, abs=noise)


def test_drawn_patterns_agree_with_all_of_them():
    rng = np.random.default_rng(3)
    a, b = rng.random(12), rng.random(12) + 0.2
    exact = p_value(a, b, resamples=5000)
    signs = np.array(list(product([1, -1], repeat=12)))
    assert exact == pytest.approx((np.abs(signs @ (a - b)) >= abs((a - b).sum()) - 1e-12).mean())
    assert p_value(a, b, resamples=4000) == pytest.approx(exact, abs=4 * np.sqrt(exact / 4000))


def test_the_test_is_two_sided_seeded_and_never_sure():
    a, b = recalls(4), recalls(5)
    p = p_value(a, b)
    assert p == p_value(b, a) == p_value(a, b, seed=0)
    assert p == pytest.approx(p_value(a, b, seed=1), abs=0.03)
    assert p_value(a + 1, b, resamples=1000) == pytest.approx(1 / 1001)
    assert p_value(a, a) == 1


def test_rounding_difference_is_a_tie():
    """Every query a trifle apart, all the same way: a tie, not a discovery."""
    a = recalls(6)
    (row,) = compare([cell("top_k", {"recall": a}), cell("mmr", {"recall": a + 1e-13})], "recall", "top_k")
    assert row.p == 1 and row.wins == WinCounts(0, len(a), 0)


@pytest.mark.parametrize("n", [2, 3, 5, 12, 40])
def test_interval_matches_scipy_with_hesterberg_correction(n):
    """Wider than plain percentiles, by the spread and the quantile of Student's interval: 2015, §3.3."""
    tail = stats.norm.cdf(np.sqrt(n / (n - 1)) * stats.t.ppf(0.025, n - 1))
    a, b = recalls(7, n, shift=0.2), recalls(8, n)
    for data, statistic, paired in (((a,), np.mean, False), ((a, b), mean_difference, True)):
        draw_options = {"n_resamples": 20_000, "batch": 1000, "rng": np.random.default_rng(1)}
        options = {"paired": paired, "vectorized": True, "method": "percentile", "confidence_level": 1 - 2 * tail}
        low, high = stats.bootstrap(data, statistic, **options, **draw_options).confidence_interval
        assert interval(*data, resamples=20_000) == pytest.approx((low, high), abs=0.02 * (high - low))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=30), st.integers(0, 5))
@example([0.1] * 3, 0)
@example([0.2] * 3, 0)
@example([0.7] * 3, 0)
def test_an_interval_holds_the_mean_and_stays_among_the_values(a, seed):
    """Three times .1 have a mean above .1, and every draw's mean is .1."""
    low, high = interval(a, resamples=200, seed=seed)
    assert low <= np.mean(a) <= high
    assert min(a) - 1e-9 <= low and high <= max(a) + 1e-9


def test_equal_values_of_few_queries_have_no_interval():
    """All of four queries at 1.000 read as "95% CI 1.000 to 1.000"."""
    values = np.ones((4, 2))
    values[:, 1] = 0.1, 0.2, 0.3, 0.4
    constant, varied = estimate_mean_intervals(values, 200, 0)
    assert constant == (None, None) and varied == bootstrap_intervals(values, 200, 0)[1]
    assert estimate_mean_intervals(np.ones((30, 1)), 200, 0) == [(1.0, 1.0)]
    assert estimate_mean_intervals(np.ones((0, 1)), 200, 0) == [(None, None)]
    ones = {"recall": np.ones(4), "ilad": np.linspace(0.1, 0.4, 4)}
    (point,) = frontier.frontier([cell("top_k", ones)]).points
    assert point.y_low is None and point.x_low is not None


def test_intervals_of_differences_end_where_the_metric_does():
    base = cell("top_k", {"recall": [1.0, 1.0, 1.0, 0.5], "ilad": [0.1, 0.2, 0.3, 0.4]})
    others = [
        cell("mmr", {"recall": [0.0, 0.5, 0.0, 1.0], "ilad": [3.0, 0.2, -3.0, 0.4]}, relevance_weight=weight / 20)
        for weight in range(20)
    ]
    rows = compare([base, *others], "recall", base)
    assert all(row.low >= -1 and row.high <= 1 and row.single_low >= -1 and row.single_high <= 1 for row in rows)
    assert any(row.low == -1 for row in rows), "the corrected interval would go beyond"
    assert min(row.low for row in compare([base, *others], "ilad", base)) < -1, "ILAD is no share"


def test_bootstrap_resamples_pairs_jointly():
    """Two decoders that always differ by .1 differ by .1 in every draw, however much queries differ."""
    a = recalls(9)
    assert interval(a + 0.1, a) == pytest.approx((0.1, 0.1))
    assert interval(a, a) == (0, 0)


def test_statistics_are_independent_of_block_size(monkeypatch):
    a, b = recalls(12), recalls(13)
    unblocked = interval(a, b), p_value(a, b)
    monkeypatch.setattr("engine.matrix.CHUNK_NUMBERS", 8000)  # rows of whole words: others draw other patterns
    assert interval(a, b) == pytest.approx(tuple(unblocked[0]))
    assert p_value(a, b) == pytest.approx(unblocked[1])


def test_blocks_of_an_odd_width_draw_what_they_always_drew():
    d = np.random.default_rng(1).normal(0.02, 0.3, size=(301, 3))
    assert statistics.compute_sign_flip_p_values(d, 10_000, 0) == pytest.approx([0.07719228, 0.26467353, 0.03189681])


def test_bad_argument_raises_error_naming_it():
    for wrong in ({"resamples": 10}, {"seed": -1}, {"k": 0}):
        with pytest.raises(ParamError, match=next(iter(wrong))):
            compare(sweep(), "recall", "top_k", **wrong)


def sweep(n=120):
    base = recalls(20, n)
    points = [cell("top_k", {"recall": base})]
    points += [
        cell("mmr", {"recall": np.clip(base + step * (np.arange(n) % 3 == 0), 0, 1)}, relevance_weight=weight)
        for weight, step in ((0.9, 0.3), (0.5, 0.0), (0.1, -0.3))
    ]
    return points


def test_comparison_rows_agree_with_value_arrays():
    points = sweep()
    rows = compare(points, "recall", points[0])
    base = points[0].values["recall"]
    assert [row.name for row in rows] == [f"MMR · λ {w}" for w in (0.9, 0.5, 0.1)]
    for row, point in zip(rows, points[1:], strict=True):
        got = point.values["recall"]
        assert (row.label, row.baseline, row.metric, row.k) == (point.label, "Top-k", "recall", 10)
        assert (row.queries, row.comparisons) == (120, 3)
        assert row.difference == pytest.approx(got.mean() - base.mean())
        assert row.mean - row.baseline_mean == pytest.approx(row.difference)
        assert (row.single_low, row.single_high) == pytest.approx(tuple(interval(got, base)))
        assert row.low <= row.single_low and row.single_high <= row.high
        assert row.wins == ((got > base).sum(), (got == base).sum(), (got < base).sum())
    assert [row.p_holm for row in rows] == pytest.approx(correct_holm([row.p for row in rows]))
    assert [row.significant for row in rows] == [True, False, True]
    assert rows[1].p == pytest.approx(1)
    alone = compare(points[:2], "recall", "top_k")[0]
    assert alone.p == pytest.approx(p_value(points[1].values["recall"], base))
    assert alone.p_holm == alone.p


def test_wins_and_largest_differences_by_hand():
    """The VRSD paper's §4.1: on how many queries cos(sum, q) is larger, and by how much at most."""
    a, b = [0.9, 0.5, 0.7, 0.4], [0.6, 0.5, 0.8, 0.3]
    points = [cell("vrsd", {"cos_sum": a}), cell("mmr", {"cos_sum": b}, relevance_weight=0.5)]
    (row,) = compare(points, "cos_sum", "mmr")
    assert row.wins == WinCounts(2, 1, 1)
    assert (row.most, row.least) == pytest.approx((0.3, -0.1)) and row.mean == pytest.approx(0.625)
    (result,) = compare(points, "cos_sum", "vrsd")
    assert (result.most, result.least) == pytest.approx((0.1, -0.3)) and result.wins == WinCounts(1, 1, 2)


def test_a_baseline_is_found_by_label_name_or_method():
    points = sweep()
    for baseline in (points[0], points[0].label, "Top-k", "top_k"):
        assert compare(points, "recall", baseline)[0].baseline == "Top-k"
    for baseline in (points[1].label, "MMR · λ 0.9", "mmr(relevance_weight=0.9)"):
        row = compare(points, "recall", baseline)[0]
        assert (row.name, row.baseline) == ("Top-k", "MMR · λ 0.9")
    assert len(compare(points[1:], "recall", points[0])) == 3
    with pytest.raises(ParamError, match="'mmr' means 3 points"):
        compare(points, "recall", "mmr")
    with pytest.raises(ParamError, match="none is called 'best'"):
        compare(points, "recall", "best")
    with pytest.raises(ParamError, match="k = 5"):
        compare([cell("top_k", {"recall": [1]}, k=5)], "recall", points[0], k=5)


def test_holm_allows_significance_with_many_comparisons():
    """With so few patterns for so many comparisons, Holm would leave no p under .05 whatever was measured."""
    base = recalls(20, 60)
    points = [cell("top_k", {"recall": base})]
    points += [cell("mmr", {"recall": base + 1 + w}, relevance_weight=w) for w in np.linspace(0, 1, 12)]
    rows = compare(points, "recall", "top_k", resamples=100)
    assert all(row.significant and row.p_holm == pytest.approx(0.01, rel=0.01) for row in rows)


def test_only_queries_that_all_have_are_compared():
    a = cell("top_k", {"ilad": [0.1, 0.2, np.nan, 0.4]})
    b = cell("mmr", {"ilad": [0.5, 0.3, 0.2]}, queries=("q0002", "q0001", "q0000"))
    c = cell("vrsd", {"ilad": [np.nan] * 4})
    (row,) = compare([a, b, c], "ilad", a)
    assert (row.queries, row.mean, row.baseline_mean) == (2, pytest.approx(0.25), pytest.approx(0.15))
    aligned = align_on_common_queries([b, a, c], ("ilad",), 10)
    assert (aligned.queries, aligned.n_common, aligned.left_out) == (("q0000", "q0001"), 3, (c,))
    with pytest.raises(DataError, match="nothing can be compared"):
        compare([a, b, c], "ilad", c)
    with pytest.raises(DataError, match="for the fewest, 1 of 4: leave it out"):
        compare([a, cell("vrsd", {"ilad": [np.nan, np.nan, 1, np.nan]})], "ilad", a)
    with pytest.raises(DataError, match="on any query"):
        align_on_common_queries([c], ("ilad",), 10)


def test_compare_of_mismatched_cells_raises_param_error():
    a, b = sweep()[:2]
    for points, metric, k, error, message in (
        ([a, b], "ilad", 10, ParamError, "ilad was not measured"),
        ([a, b], "recall", 3, DataError, "k of the points: 10"),
        ([a, cell("mmr", b.values, split="dev")], "recall", 10, DataError, "one split; got dev, test"),
        ([a, cell("top_k", b.values)], "recall", 10, DataError, "one data set at a time"),
    ):
        with pytest.raises(error, match=message):
            compare(points, metric, a.label, k)
    assert len(compare([a, b, b, cell("mmr", b.values, k=5)], "recall", a)) == 1


def test_short_names_distinguish_decoders():
    v = {"recall": [1]}
    assert short_names([cell("top_k", v), cell("mmr", v, window=3), cell("mmr", v, depth=100)]) == (
        "Top-k",
        "MMR · λ 0.8 w 3",
        "MMR · λ 0.8 [pool 100]",
    )
    behind_words = cell("nnn", v, retrieve=make("bm25").as_json(), depth=50)
    limited = cell("mmr", v, retrieve=make("bm25").as_json())
    limited = replace(limited, decoder={**limited.decoder, "per_source": 1, "source": "url", "without_self": False})
    assert short_names([behind_words]) == (
        "BM25 · k₁ 1.5 b 0.75 (pool only) → NNN · λ₁ 0.1 λ₂ 0.1 · may return fewer [pool 50]",
    )
    assert short_names([limited]) == ("MMR · λ 0.8 [1 per url] [with self]",)
    printed = format_decoder_call(limited.decoder)
    assert printed == "bm25(k1=1.5, b=0.75) → mmr(relevance_weight=0.8) [1 per url] [with self]"
    assert resolve_baseline([behind_words, limited], printed, 10) is limited
    unknown = {"name": "not_registered", "weight": 0.5}
    assert short_names([cell("top_k", v, retrieve=unknown)]) == ("Top-k",)
    two = short_names([cell("top_k", v, retrieve=unknown), cell("top_k", v)])
    assert two == ("not_registered · weight 0.5 → Top-k", "Dense → Top-k")
    later = {"name": "not_registered", "depth": 3}
    assert short_names([cell("top_k", v, rerank=later)]) == ("Dense → not_registered · depth 3 → Top-k",)
    old = short_names([cell("mmr", v, window=3, rerank=later), cell("mmr", v, depth=100)], format_stage_call)
    assert old == (
        "dense → not_registered(depth=3) → mmr(relevance_weight=0.8, window=3)",
        "dense → mmr(relevance_weight=0.8) [pool 100]",
    )


def test_parameters_that_are_no_numbers_are_shown_as_words():
    v = {"recall": [1]}
    assert short_names(
        [cell("max_sum", v, polish=False), cell("nnn", v, scale="support", l1=10.0), cell("vrsd", v)]
    ) == (
        "Max-sum · θ 0.8 · no improvement by swaps",
        "NNN · m 10 λ₂ 0.1 · support · may return fewer",
        "VRSD",
    )
    assert describe_guarantee({"name": "nnn", "fill": "fill"}) == "fills up to k" and not describe_guarantee(
        {"name": "mmr"}
    )
    rrf = {"name": "hybrid", "dense_weight": 1.0, "combination": "rrf", "normalisation": "min-max", "ngrams": "1-2"}
    assert short_names([cell("top_k", v, retrieve=rrf), cell("top_k", v)])[0] == (
        "Hybrid · λ 1 ngrams 1-2 · rrf · min-max → Top-k"
    )


@pytest.mark.parametrize("spec", [s for kind in ("selector", "scorer") for s in methods(kind).values()])
def test_no_two_settings_of_a_method_have_one_name(spec):
    grids = ([p.default, *(v for v in p.grid(3) if v != p.default)] for p in spec.params)
    settings = islice(product(*grids), 3000)
    names = [
        format_stage(spec.name, {p.name: p.text(value) for p, value in zip(spec.params, values, strict=True)})
        for values in settings
    ]
    assert len(names) == len(set(names))


def test_sentences_by_hand():
    rows = compare(sweep(), "recall", "top_k")
    gain_sentence, tie_sentence, loss_sentence = map(describe_comparison, rows)
    assert re.fullmatch(
        r"MMR · λ 0\.9: \+0\.\d{3} Recall@10 vs Top-k \(95% CI 0\.\d{3} to 0\.\d{3}, p < 0\.001, both corrected by "
        r"Holm over 3; uncorrected p < 0\.001\); better on \d+ queries, worse on 0 queries, the same on \d+\.",
        gain_sentence,
    )
    assert tie_sentence == "MMR · λ 0.5 and Top-k have the same Recall@10 on all 120 queries."
    assert re.match(r"MMR · λ 0\.1: −0\.\d{3} Recall@10 vs Top-k \(95% CI −0\.\d{3} to −0\.\d{3}, p", loss_sentence)
    counts = "1 better · 1 no significant difference · 1 worse"
    assert summarize_comparisons(rows) == f"3 settings vs Top-k, Recall@10, on 120 common queries: {counts}"
    assert summarize_comparisons([]) == "Nothing was compared."


def test_sentence_without_evidence_claims_no_difference():
    a = cell("top_k", {"recall": [0, 1, 0, 1]})
    four_queries = compare([a, cell("mmr", {"recall": [1, 1, 0, 1]})], "recall", a)[0]
    assert describe_comparison(four_queries) == (
        "No significant difference. MMR · λ 0.8: +0.250 Recall@10 vs Top-k (95% CI 0.000 to 1.000, p > 0.99); "
        "better on 1 query, worse on 0 queries, the same on 3."
    )
    one_query = compare([cell("top_k", {"recall": [0]}), cell("mmr", {"recall": [0.5]})], "recall", "top_k")[0]
    assert (one_query.low, one_query.high, one_query.significant) == (None, None, False)
    assert describe_comparison(one_query) == "MMR · λ 0.8: +0.500 Recall@10 vs Top-k; one query says nothing of others."
    again = compare([cell("top_k", {"x": [0]}), cell("mmr", {"x": [0]})], "x", "top_k")[0]
    assert describe_comparison(again) == "MMR · λ 0.8 and Top-k have the same x@10 on the one query asked."


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0, 0.05, 0.3]), st.integers(2, 60))
@example(48, 0, 2)  # equal on both queries
def test_significance_requires_test_and_interval(seed, shift, n):
    a, b = recalls(seed, n), recalls(seed + 1, n, shift)
    (row,) = compare([cell("top_k", {"recall": a}), cell("mmr", {"recall": b})], "recall", "top_k", resamples=500)
    sure = row.p < 0.05 and (row.low > 0 or row.high < 0)
    assert row.significant == sure
    if list(a) == list(b):
        assert "have the same Recall@10" in describe_comparison(row) and not sure
    else:
        assert describe_comparison(row).startswith("No significant difference. ") == (not sure)


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(3, 40))
@example(0, 8, 60)
@example(125, 2, 34)  # one end equals the single one's but for rounding
def test_corrected_interval_belongs_to_the_corrected_test(seed, n_rows, n):
    base = recalls(seed, n)
    shifts = np.linspace(0, 0.4, n_rows)
    others = [
        cell("mmr", {"recall": recalls(seed + 1 + i, n, shift)}, relevance_weight=shift)
        for i, shift in enumerate(shifts)
    ]
    rows = compare([cell("top_k", {"recall": base}), *others], "recall", "top_k", resamples=500)
    n_rejected = sum(row.p_holm < 0.05 for row in rows)
    for rank, row in enumerate(sorted(rows, key=lambda row: row.p)):
        step = n_rows - min(rank, n_rejected)
        if row.p_holm < 0.05:
            scale = stats.t.ppf(1 - 0.025 / step, n - 1) / stats.t.ppf(0.975, n - 1)
            assert row.difference - row.low == pytest.approx(scale * (row.difference - row.single_low))
            assert row.high - row.difference == pytest.approx(scale * (row.single_high - row.difference))
        else:
            assert row.low <= 0 <= row.high and not row.significant
        assert row.low <= row.single_low <= row.difference <= row.single_high <= row.high
        # Nothing is called no difference beside an interval without 0, and nothing a difference with one.
        assert row.significant == (not row.low <= 0 <= row.high)


def test_a_small_p_with_an_interval_that_holds_zero_is_not_significant():
    (row,) = compare(sweep()[:2], "recall", "top_k")
    assert row.significant and row.p_holm < 0.05
    for low, high in ((-0.1, row.high), (0.0, row.high), (row.low, None)):
        assert not replace(row, low=None if high is None else low, high=high).significant
    assert not replace(row, p_holm=0.05).significant


def test_numbers_are_short_and_never_round_a_claim_away():
    row = compare(sweep(), "recall", "top_k")[0]
    small = {"difference": 0.0003, "low": 0.00004, "high": 0.0006, "p_holm": 0.04996, "p": 0.0167}
    assert describe_comparison(replace(row, **small)).startswith(
        "MMR · λ 0.9: +0.0003 Recall@10 vs Top-k (95% CI 0.00004 to 0.001, p = 0.04996, both corrected by Holm over 3; "
        "uncorrected p = 0.017); "
    )
    less = {"difference": -0.0003, "low": -0.0006, "high": -0.00004}
    assert "−0.0003 Recall@10 vs Top-k (95% CI −0.001 to −0.00004, " in describe_comparison(replace(row, **less))
    noise = {"difference": 1e-17, "low": -2e-17, "high": 3e-17, "p_holm": 1.0}
    assert "±0 Recall@10 vs Top-k (95% CI 0.000 to 0.000, p > 0.99, " in describe_comparison(replace(row, **noise))


def test_statistics_code_names_no_method():
    for module in (statistics, pairing, frontier, stratification):
        source = inspect.getsource(module)
        for name in methods():
            assert not re.search(rf"\b{name}\b", source), (module, name)


def simulate_rejection_rate(count, effect, times=40_000):
    """Simulate the share of t-tests of `count` normal differences that reject."""
    draws = np.random.default_rng(count).normal(effect, 1.0, size=(times, count))
    return float((stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05).mean())


@pytest.mark.parametrize("effect", deepen([1.5, 0.8, 0.5, 0.3], [0.5, 0.3]))
def test_required_queries_are_minimal_for_the_power(effect):
    seen = np.array([-1.0, 1.0]) / np.sqrt(2)  # a standard deviation of 1
    count = estimate_queries_needed(seen, -effect)
    noise = 4 * np.sqrt(0.8 * 0.2 / 40_000)
    assert simulate_rejection_rate(count, effect) > 0.8 - noise
    assert simulate_rejection_rate(count - 1, effect) < 0.8 + noise


def test_required_queries_match_cohens_table():
    """Cohen 1988: d = 0.5 needs 34 pairs, d = 0.2 needs 199."""
    seen = np.array([-1.0, 1.0]) / np.sqrt(2)
    assert [estimate_queries_needed(seen, d) for d in (0.5, 0.2)] == [34, 199]
    assert estimate_queries_needed(seen, 0.5, power=0.9) == 44


def test_required_queries_depend_on_spread_alone():
    seen = np.random.default_rng(0).normal(size=50)
    assert (
        estimate_queries_needed(seen, 0.1)
        == estimate_queries_needed(seen + 5, 0.1)
        == estimate_queries_needed(-3 * seen, 0.3)
    )


@pytest.mark.parametrize("seen", [[], [0.3], [0.0, 0.0, 0.0], [0.2, 0.2]])
def test_required_queries_of_constant_values_are_none(seen):
    assert estimate_queries_needed(np.array(seen), 0.1) is None


def test_no_number_beyond_a_million_and_bad_arguments():
    seen = np.array([-1.0, 1.0])
    assert estimate_queries_needed(seen, 1e-4) is None
    for bad in ((0.0, 0.8), (float("nan"), 0.8), (0.1, 1.0)):
        with pytest.raises(ParamError, match="must be a number"):
            estimate_queries_needed(seen, *bad)
