"""The threshold of near-duplicates: the larger of 0.9 and a high percentile of random pairs."""

import numpy as np
import pytest
import torch

import engine
from engine.evaluation.duplicate_threshold import (
    MAX_RANDOM_PAIRS,
    RandomPairs,
    compute_pair_cosines,
    resolve_duplicate_threshold,
    sample_random_pairs,
)
from support.instances import unit
from support.rankings import space_of


def narrow_cone(n, d=32, seed=0, shift=2):
    """Unit vectors whose cosines lie about .8, as those of some encoders do, or .9 by a shift of 3."""
    rng = np.random.default_rng(seed)
    return unit(unit(rng.normal(size=(n, d))) + shift * np.eye(d)[0])


def test_a_corpus_of_like_vectors_has_a_threshold_of_its_own():
    space = space_of(narrow_cone(900, shift=3))
    pairs = sample_random_pairs(space)
    vectors = space.vectors.double().numpy()
    cosines = (vectors @ vectors.T)[np.triu_indices(900, 1)]
    assert pairs.is_sample and len(pairs) == MAX_RANDOM_PAIRS
    assert 0.9 < pairs.threshold == pytest.approx(np.quantile(cosines, 1 - 10 / 900), abs=0.003)
    # It is what it is displayed as, and no less than the percentile.
    assert f"{pairs.threshold:g}" == repr(pairs.threshold) == str(round(pairs.threshold, 4))
    assert pairs.threshold >= np.quantile(pairs.cosines, 1 - 10 / 900)
    assert pairs.ilad == pytest.approx(1 - cosines.mean(), abs=0.005)
    assert resolve_duplicate_threshold(space) == pairs.threshold
    assert sample_random_pairs(space) is pairs and resolve_duplicate_threshold(space, 0.5) == 0.5


def test_a_small_corpus_is_looked_at_whole_and_both_ways_agree():
    vectors = narrow_cone(120)
    pairs = sample_random_pairs(space_of(vectors))
    cosines = np.sort((vectors @ vectors.T)[np.triu_indices(120, 1)])
    assert not pairs.is_sample
    np.testing.assert_allclose(pairs.cosines, cosines, atol=1e-12)
    first, second = np.triu_indices(120, 1)
    np.testing.assert_allclose(np.sort(compute_pair_cosines(torch.from_numpy(vectors), first, second)), cosines)


def test_larger_corpora_are_sampled_the_same_way_at_every_call():
    vectors = narrow_cone(2500, d=8).astype(np.float32)
    first, again = (sample_random_pairs(space_of(vectors)) for _ in range(2))
    assert np.array_equal(first.cosines, again.cosines) and len(first) == MAX_RANDOM_PAIRS
    true = np.quantile((vectors @ vectors.T)[np.triu_indices(2500, 1)], [0.1, 0.5, 0.9])
    np.testing.assert_allclose(np.quantile(first.cosines, [0.1, 0.5, 0.9]), true, atol=0.005)


@pytest.mark.parametrize("case", ["unlike", "few", "one", "equal", "zero", "full of copies", "full of near-duplicates"])
def test_the_threshold_stays_at_nine_tenths(case):
    rng = np.random.default_rng(1)
    base = unit(rng.normal(size=(100, 64)))
    crowded = unit(np.repeat(base[:50], 20, 0) + 0.01 * rng.normal(size=(1000, 64)))
    vectors = {
        "unlike": unit(rng.normal(size=(500, 64))),
        "few": narrow_cone(40),
        "one": np.ones((1, 3)),
        "equal": np.ones((60, 3)),
        "zero": np.zeros((60, 3)),
        "full of copies": np.repeat(base, 10, 0),
        # 19 in 1,000 pairs are near-duplicates, and so is the percentile, above which 10 lie.
        "full of near-duplicates": crowded,
    }[case]
    assert resolve_duplicate_threshold(space_of(vectors)) == 0.9


def test_a_small_catalogue_in_a_few_colours_keeps_its_groups():
    rng = np.random.default_rng(2)
    # One theme makes all products alike, and 10 of the 110 come in five colours each.
    products = unit(unit(rng.normal(size=(110, 64))) + 0.8 * np.eye(64)[0])
    colours = unit(np.repeat(products[:10], 5, 0) + 0.01 * rng.normal(size=(50, 64)))
    space = space_of(np.concatenate([colours, products[10:]]))
    # The 100 pairs within the groups are 9 in 1,000: the 99.9th percentile is one of them.
    assert np.quantile(sample_random_pairs(space).cosines, 0.999) > 0.98
    assert resolve_duplicate_threshold(space) == 0.9
    found = engine.find_near_duplicates(space)
    assert [len(group) for group in found.groups] == [5] * 10


@pytest.mark.parametrize("n", [60, 150, 900])
def test_an_encoder_whose_pairs_all_exceed_nine_tenths_has_a_high_threshold(n):
    space = space_of(narrow_cone(n, shift=4))
    cosines = sample_random_pairs(space).cosines
    assert cosines.min() > 0.85 and np.median(cosines) > 0.93
    # No more than ten others are a document's near-duplicates on average.
    threshold = resolve_duplicate_threshold(space)
    assert threshold > np.quantile(cosines, 0.8) and (cosines >= threshold).mean() * n <= 10.5


def test_from_ten_thousand_documents_on_the_percentile_is_the_same():
    cosines = np.sort(np.random.default_rng(4).uniform(0.9, 1, 50_000))
    thresholds = {}
    for n_documents in (1000, 10_000, 1_000_000):
        thresholds[n_documents] = RandomPairs(cosines, is_sample=True, n_documents=n_documents).threshold
    assert thresholds[10_000] == thresholds[1_000_000] == pytest.approx(np.quantile(cosines, 0.999), abs=1e-4)
    assert thresholds[1000] == pytest.approx(np.quantile(cosines, 0.99), abs=1e-4)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, "0.9", True])
def test_a_threshold_is_a_cosine(threshold):
    with pytest.raises(engine.ParamError, match=r"threshold \(τ\) must be a number in \[0, 1\]"):
        resolve_duplicate_threshold(space_of(np.eye(3)), threshold)
