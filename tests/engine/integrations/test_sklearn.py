"""The estimator: texts and arrays, ids, pipelines and clones."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

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
