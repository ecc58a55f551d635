"""The estimator: texts and arrays, ids, pipelines and clones."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import check_estimator

import engine
from engine.integrations.sklearn import FrontierRetriever
from support.instances import random_rows

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.4))
ROWS = random_rows(np.random.default_rng(0), 20, 4).astype(np.float32)


def test_arrays_and_ids():
    names = [f"d{i}" for i in range(20)]
    fitted = FrontierRetriever(MMR, k=4).fit(ROWS, names)
    ranking = engine.select(MMR.select, ROWS, ROWS[:3], k=4)
    assert fitted.predict(ROWS[:3]).tolist() == ranking.index.tolist()
    answers = fitted.answers(ROWS[:3])
    assert [list(one.ids) for one in answers] == [[names[row] for row in ranking.rows(b)] for b in range(3)]
    assert [one.certificate for one in answers] == list(ranking.info)
    assert FrontierRetriever(MMR, k=30).fit(ROWS).predict(ROWS[:1])[0, 20:].tolist() == [-1] * 10
    assert FrontierRetriever(MMR, k=2).fit(ROWS).answers(ROWS[:1])[0].ids[0] == "0"


def test_texts_are_embedded(demo):
    dataset, _ = demo
    texts = list(dataset.corpus.texts[:40])
    fitted = FrontierRetriever(MMR, k=3).fit(texts)
    corpus = engine.Corpus(tuple(map(str, range(40))), tuple(texts))
    space = engine.Space(corpus, engine.embed(corpus))
    assert fitted.predict(["sort an array"])[0].tolist() == engine.decode(MMR, space, ["sort an array"], k=3).rows()


def test_a_pipeline_of_sparse_vectors():
    texts = ["red apple pie", "green apple tart", "fast red car", "slow green train", "apple", "car and train"]
    vectors = make_pipeline(TfidfVectorizer(), Normalizer()).fit(texts)
    piped = make_pipeline(TfidfVectorizer(), Normalizer(), FrontierRetriever(MMR, k=3)).fit(texts)
    dense = vectors.transform(texts).toarray()
    asked = vectors.transform(["green car"]).toarray()
    assert piped.predict(["green car"]).tolist() == engine.select(MMR.select, dense, asked, k=3).index.tolist()


def test_a_clone_is_not_fitted():
    fitted = FrontierRetriever(MMR, k=4).fit(ROWS)
    assert clone(fitted).get_params() == {"decoder": MMR, "k": 4, "encoder": "bundled"}
    with pytest.raises(NotFittedError):
        clone(fitted).predict(ROWS)
    with pytest.raises(engine.DataError, match="X must be texts or an array"):
        fitted.predict(ROWS[0])


LABEL_CHECKS = dict.fromkeys(
    ("check_estimator_sparse_array", "check_estimator_sparse_matrix"),
    "it wants one label for each query; predict returns k rows, and test_a_pipeline_of_sparse_vectors has such input",
)
"""Checks of scikit-learn that do not apply, with the reason; the class's docstring names them too."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [FrontierRetriever(), FrontierRetriever(MMR, k=3)], ids=["default", "mmr"])
def test_estimator_passes_the_checks_of_sklearn_that_apply(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None, expected_failed_checks=LABEL_CHECKS)
    by_status = {status: {r["check_name"] for r in results if r["status"] == status} for status in ("failed", "xfail")}
    assert by_status == {"failed": set(), "xfail": set(LABEL_CHECKS)}
    assert all(name in FrontierRetriever.__doc__ for name in LABEL_CHECKS)


def test_labels_that_repeat_are_no_ids_and_frames_are_vectors():
    with pytest.warns(UserWarning, match="y repeats values"):
        fitted = FrontierRetriever(MMR, k=2).fit(pd.DataFrame(ROWS), [0, 1] * 10)
    assert fitted.space_.corpus.ids[:3] == ("0", "1", "2")
    assert (
        fitted.predict(pd.DataFrame(ROWS[:3])).tolist()
        == FrontierRetriever(MMR, 2).fit(ROWS).predict(ROWS[:3]).tolist()
    )
