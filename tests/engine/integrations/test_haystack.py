"""The Haystack ranker: saved and loaded with its pipeline, and what comes back."""

import numpy as np
import pytest

import engine
from support import adapters  # noqa: F401  (says nothing to anybody before Haystack is imported)
from support.instances import random_rows

pytest.importorskip("haystack")

from haystack import Document, Pipeline

from engine.integrations.haystack import FrontierRanker

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.4), depth=15)
ROWS = random_rows(np.random.default_rng(0), 20, 4).astype(np.float32)
GIVEN = [Document(id=str(i), content=f"text {i}", embedding=row.tolist(), score=0.5) for i, row in enumerate(ROWS)]


def test_it_ranks_with_a_certificate_and_top_k_in_place_of_k():
    ranker = FrontierRanker(MMR, k=4)
    ranking = engine.select(MMR.select, ROWS, ROWS[3], k=6, pool=15)
    found = ranker.run(query="q", documents=GIVEN, query_embedding=ROWS[3].tolist(), top_k=6)
    assert [int(document.id) for document in found["documents"]] == ranking.rows()
    assert [document.score for document in found["documents"]] == ranking.gain[0].tolist()
    assert found["certificate"] == ranking.info[0] and GIVEN[0].score == 0.5
    assert len(ranker.run(query="q", documents=GIVEN, query_embedding=ROWS[3].tolist())["documents"]) == 4
    assert ranker.run(query="q", documents=[]) == {"documents": [], "certificate": {}}


def test_a_saved_pipeline_has_the_decoder():
    pipeline = Pipeline()
    pipeline.add_component("ranker", FrontierRanker(MMR, k=4, encoder="bundled"))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=[FrontierRanker.__module__])
    asked = {"ranker": {"query": "q", "documents": GIVEN, "query_embedding": ROWS[3].tolist()}}
    assert again.run(asked) == pipeline.run(asked)
    assert again.to_dict() == pipeline.to_dict()
