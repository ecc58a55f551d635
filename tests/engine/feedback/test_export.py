"""Adapted documents elsewhere: files that come back bit by bit, and a vector store that ranks as they do."""

import numpy as np
import pytest

import engine
from engine import orag
from support.feedback import feed_rounds, queries_near, random_space, space_of


@pytest.fixture(scope="module")
def after():
    return feed_rounds(orag.session(random_space(), temperature=0.2), 30, kinds="ot")


@pytest.mark.parametrize("suffix", (".npy", ".npz"))
def test_files_of_vectors_come_back_as_they_were(tmp_path, after, suffix):
    exported = engine.load_vectors(orag.export(after, tmp_path / f"vectors{suffix}"))
    assert exported.ids == after.space.corpus.ids and exported.digest == after.embeddings().digest
    assert exported.vectors.numpy().tobytes() == after.vectors.tobytes()


def test_parquet_comes_back_as_it_was(tmp_path, after):
    from pyarrow import parquet

    table = parquet.read_table(orag.export(after, tmp_path / "vectors.parquet"))
    assert table.column("id").to_pylist() == list(after.space.corpus.ids)
    flat = table.column("vector").combine_chunks().flatten().to_numpy()
    assert flat.reshape(len(after), -1).tobytes() == after.vectors.tobytes()
    metadata = table.schema.metadata
    assert metadata[b"frontier.session"].decode() == after.digest
    assert metadata[b"frontier.embeddings"].decode() == after.embeddings().digest


def test_unwritable_export_raises_error(tmp_path, after):
    for name in ("vectors.csv", "vectors"):
        with pytest.raises(engine.ParamError, match="path must end in"):
            orag.export(after, tmp_path / name)
    lines = orag.session(space_of(np.eye(2, dtype=np.float32), ids=("a\nb", "c")), temperature=1)
    with pytest.raises(engine.ParamError, match="line breaks"):
        orag.export(lines, tmp_path / "vectors.npy")
    assert engine.load_vectors(orag.export(lines, tmp_path / "v.npz")).ids == ("a\nb", "c")


def test_qdrant_ranks_by_exported_vectors(after):
    qdrant = pytest.importorskip("qdrant_client")
    client = qdrant.QdrantClient(":memory:")
    start = orag.at(after, 0)
    assert orag.upsert(start, client, moved=False) == len(after)
    changed = orag.upsert(after, client, moved=True)
    assert 0 < changed == (after.vectors != after.origin).any(axis=1).sum() < len(after)
    for query in queries_near(after.space, 5)[0]:
        points = client.query_points("documents", query=query.tolist(), limit=10).points
        assert [point.id for point in points] == np.argsort(-after.scores(query))[:10].tolist()
        assert points[0].payload["id"] == after.space.corpus.ids[points[0].id]
