"""The LlamaIndex postprocessor: embeddings of nodes and of the query bundle, and what comes back."""

import numpy as np
import pytest

import engine
from support.instances import random_rows

pytest.importorskip("llama_index.core")

from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from engine.integrations.llama_index import FrontierPostprocessor

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.4))
ROWS = random_rows(np.random.default_rng(0), 20, 4).astype(np.float32)


def nodes(vectors=True):
    embeddings = ROWS.tolist() if vectors else [None] * len(ROWS)
    given = [TextNode(id_=str(i), text=f"text {i}", embedding=own) for i, own in enumerate(embeddings)]
    return [NodeWithScore(node=node, score=0.5) for node in given]


def test_embeddings_of_nodes_and_query_are_used_where_they_are():
    postprocessor = FrontierPostprocessor(MMR, k=4)
    query = QueryBundle("q", embedding=ROWS[3].tolist())
    found = postprocessor.postprocess_nodes(nodes(), query)
    ranking = engine.select(MMR.select, ROWS, ROWS[3], k=4)
    assert [int(node.node_id) for node in found] == ranking.rows()
    assert [node.score for node in found] == ranking.gain[0].tolist()
    assert postprocessor.answer(nodes(), query).certificate == ranking.info[0]
    assert FrontierPostprocessor.class_name() == "FrontierPostprocessor"


def test_nodes_without_are_embedded_with_the_query():
    asked = []

    def encode(texts, role):
        asked.append(role)
        return ROWS[[3]] if role == "query" else ROWS[: len(texts)]

    found = FrontierPostprocessor(MMR, k=4, encoder=encode).postprocess_nodes(
        nodes(vectors=False), QueryBundle("q", embedding=ROWS[9].tolist())
    )
    assert [int(node.node_id) for node in found] == engine.select(MMR.select, ROWS, ROWS[3], k=4).rows()
    assert asked == ["document", "query"]


def test_no_query_is_refused():
    with pytest.raises(ValueError, match="pass query_bundle or query_str"):
        FrontierPostprocessor(MMR).postprocess_nodes(nodes())
