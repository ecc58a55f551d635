"""Clusters of a map: planted groups get their planted words, and no corpus is too odd for names."""

import numpy as np
import pytest

from engine.data import cache
from engine.maps.clusters import MAX_CLUSTERS, MIN_CLUSTER_SIZE, find_clusters, title_prefix
from engine.maps.layout import Layout
from support.random_texts import corpus_of

TOPICS = ("masked array", "random sample", "hermite series", "string width", "matrix inverse")


def layout_of(points):
    points = np.asarray(points, dtype=np.float32).reshape(-1, 2)
    return Layout(points, np.arange(len(points)), len(points), "none", "tsne", 0)


def planted(each=2 * MIN_CLUSTER_SIZE, seed=0):
    """(map, corpus, topic of each document): topics far apart, under one prefix, with words that all share."""
    draw = np.random.default_rng(seed)
    topic = draw.permutation(np.repeat(np.arange(len(TOPICS)), each))
    points = 50 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 2]])[topic] + draw.normal(size=(len(topic), 2))
    fill = [" ".join(draw.choice(["returns", "value", "given", "axis", "of"], 6)) for _ in topic]
    texts = [f"The {TOPICS[t]} {words}." for t, words in zip(topic, fill, strict=True)]
    return layout_of(points), corpus_of(texts, [f"numpy.ma.name{i}" for i in range(len(topic))]), topic


def test_planted_clusters_get_their_planted_words():
    layout, corpus, topic = planted()
    found = find_clusters(layout, corpus, cache=False)
    named = {t: {found.names[c] for c in found.of[topic == t]} for t in range(len(TOPICS))}
    for t, names in named.items():
        # A topic may be cut in two, which then have names of their own; one of them is the topic's.
        assert any(set(TOPICS[t].split()) & set(name.replace(",", "").split()) for name in names), named
        assert not any("numpy" in name or name == "ma" for name in names)
    assert len(set(found.names)) == len(found.names)
    assert all(len(set(topic[found.of == c])) == 1 for c in range(len(found.names)))


def test_centres_are_documents_of_their_cluster_and_the_largest_comes_first():
    layout, corpus, _ = planted()
    found = find_clusters(layout, corpus, cache=False)
    assert list(found.sizes) == sorted(np.bincount(found.of), reverse=True) == list(np.bincount(found.of))
    for cluster, centre in enumerate(found.centres):
        inside = layout.points[found.of == cluster]
        assert (inside == centre).all(1).any()
        gap = np.linalg.norm(inside - inside.mean(0), axis=1)
        assert np.linalg.norm(centre - inside.mean(0)) == pytest.approx(gap.min(), rel=1e-4)


def test_the_same_map_and_texts_give_the_same_clusters_whatever_the_threads():
    from threadpoolctl import threadpool_limits

    layout, corpus, _ = planted()
    first = find_clusters(layout, corpus, cache=False)
    for threads in (1, 4):
        with threadpool_limits(threads):
            again = find_clusters(layout, corpus, cache=False)
        assert again.names == first.names and again.of.tobytes() == first.of.tobytes()
        assert again.centres.tobytes() == first.centres.tobytes()


def test_clusters_are_kept_beside_their_map_by_the_texts_too():
    cache.clear("maps")
    layout, corpus, _ = planted()
    first = find_clusters(layout, corpus)
    (entry,) = cache.list_files(cache.open_section("maps"))
    again = find_clusters(layout, corpus)
    assert again.names == first.names
    for name in ("of", "centres", "sizes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    other = find_clusters(layout, corpus_of(["ocean wave"] * len(corpus)))
    assert other.names != first.names and len(list(cache.list_files(cache.open_section("maps")))) == 2
    entry.write_bytes(entry.read_bytes()[:-1])
    assert find_clusters(layout, corpus).names == first.names, "a damaged entry is made again"


ODD = {
    "one document": ([[0, 0]], ["lonely planet"], 1),
    "no text at all": (np.eye(2), ["", ""], 1),
    "only stop words and marks": (np.eye(2), ["the of !!", "a 12 ?"], 1),
    "all in one place": (np.zeros((3 * MIN_CLUSTER_SIZE, 2)), ["same text"] * 3 * MIN_CLUSTER_SIZE, 1),
    "two places": (np.repeat(np.eye(2), 3 * MIN_CLUSTER_SIZE, axis=0), ["same text"] * 6 * MIN_CLUSTER_SIZE, 2),
    "nearly one place": (
        1e-30 * np.arange(8 * MIN_CLUSTER_SIZE).reshape(-1, 2),
        ["same text"] * 4 * MIN_CLUSTER_SIZE,
        4,
    ),
    "no spaces between words": (np.eye(2), ["行列の積", "行列の積"], 1),
    "surrogates": (np.eye(2), ["\ud800 word", "\ud800 word"], 1),
}


@pytest.mark.parametrize("case", ODD)
def test_no_corpus_is_too_odd_for_names(case):
    points, texts, most = ODD[case]
    found = find_clusters(layout_of(points), corpus_of(texts), cache=False)
    assert 1 <= len(found.names) <= most and found.sizes.sum() == len(texts)
    assert len(found.names) == len(found.centres) == len(found.sizes) == found.of.max() + 1
    if case == "one document":
        assert found.names == ("lonely planet",)
    if case in ("no text at all", "only stop words and marks"):
        assert found.names == ("",)


def test_a_large_map_has_no_more_clusters_than_can_be_read():
    points = np.random.default_rng(1).uniform(size=(3 * MAX_CLUSTERS * MIN_CLUSTER_SIZE, 2))
    assert len(find_clusters(layout_of(points), corpus_of(["x"] * len(points)), cache=False).names) == MAX_CLUSTERS


def test_words_are_cut_at_capitals_and_underscores_and_asides_are_left_out():
    texts = ["readFile open_stream(bufsize=None, newline=None)", "readFile open_stream(bufsize=None)"]
    (name,) = find_clusters(layout_of(np.eye(2)), corpus_of(texts), cache=False).names
    assert set(name.split()) <= {"read", "file", "open", "stream"}


@pytest.mark.parametrize(
    "titles,prefix",
    [
        (["numpy.sum", "numpy.ma.sum"], "numpy."),
        (["numpy.ma.sum", "numpy.ma.sin"], "numpy.ma."),
        (["sum", "sin"], ""),
        (["numpy.sum"], ""),
        (["a b", "a b"], "a "),
        (["", "numpy.sum"], ""),
        ([], ""),
    ],
)
def test_title_prefix_ends_at_a_separator(titles, prefix):
    assert title_prefix(titles) == prefix
