"""Vectors that documents and queries came with: found, aligned, checked, scaled, and used in place of an encoder."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import engine
from engine import DataError, load_dataset
from support.draws import deep

N_DOCUMENTS, N_QUERIES, DIMENSION = 40, 6, 1536
IDS = [f"d{row}" for row in range(N_DOCUMENTS)]
QUERY_IDS = [f"q{row}" for row in range(N_QUERIES)]


def draw_rows(count, seed):
    rows = np.random.default_rng(seed).normal(size=(count, DIMENSION))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


DOCUMENTS, QUERIES = draw_rows(N_DOCUMENTS, 0), draw_rows(N_QUERIES, 1)
TEXTS = [f"document {row}" for row in range(N_DOCUMENTS)]


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


@pytest.fixture
def judged(tmp_path):
    """A folder with queries and judgements of them; the first three documents are relevant to each."""
    folder = tmp_path / "judged"
    (folder / "qrels").mkdir(parents=True)
    write_lines(folder / "queries.jsonl", [{"_id": query, "text": f"text of {query}"} for query in QUERY_IDS])
    lines = [f"{query}\t{doc}\t1\n" for query in QUERY_IDS for doc in IDS[:3]]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    return folder


@pytest.fixture
def folder(judged):
    """A BEIR folder with vectors beside its documents and its queries."""
    write_lines(judged / "corpus.jsonl", [{"_id": doc, "text": text} for doc, text in zip(IDS, TEXTS, strict=True)])
    np.save(judged / "vectors.npy", DOCUMENTS)
    np.save(judged / "query_vectors.npy", QUERIES)
    return judged


def decode_all(dataset):
    """Ids of the first three documents of every judged query."""
    space = engine.Space(dataset.corpus, dataset.vectors, "cpu")
    ranking = engine.decode(engine.Decoder(engine.make("top_k")), space, dataset.judged("test"), k=3)
    return [[dataset.corpus.ids[row] for row in rows] for rows in ranking.index.tolist()]


EXPECTED = [[IDS[row] for row in rows[:3]] for rows in np.argsort(-(QUERIES @ DOCUMENTS.T), axis=1).tolist()]


def test_vectors_beside_documents_and_queries_are_used(folder):
    assert decode_all(load_dataset(folder)) == EXPECTED


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "jsonl.gz", "json", "csv", "xlsx"])
def test_a_column_of_vectors_is_used(tmp_path, judged, kind):
    np.save(judged / "query_vectors.npy", QUERIES)
    rows = DOCUMENTS.tolist()
    if kind == "xlsx":
        pytest.importorskip("openpyxl")
        # A cell of a spreadsheet holds 32,767 characters.
        rows = [[round(number, 6) for number in row] for row in rows]
    frame, path = pd.DataFrame({"id": IDS, "text": TEXTS, "embedding": rows}), tmp_path / f"a.{kind}"
    match kind:
        case "parquet":
            frame.to_parquet(path)
        case "csv":
            frame.to_csv(path, index=False)
        case "xlsx":
            frame.to_excel(path, index=False)
        case _:
            frame.to_json(path, orient="records", lines=kind != "json", double_precision=15)
    dataset = load_dataset(path, columns={"vectors": "embedding"}, qrels=str(judged))
    assert dataset.vectors.ids == tuple(IDS) and dataset.vectors.vectors.dtype == torch.float32
    assert np.allclose(dataset.vectors.vectors, DOCUMENTS, atol=1e-6 if kind == "xlsx" else 1e-7)
    assert decode_all(dataset) == EXPECTED


def test_columns_of_vectors_in_both_tables_are_used(folder):
    for name in ("vectors.npy", "query_vectors.npy"):
        (folder / name).unlink()
    documents = zip(IDS, TEXTS, DOCUMENTS.tolist(), strict=True)
    write_lines(folder / "corpus.jsonl", [{"_id": doc, "text": text, "emb": row} for doc, text, row in documents])
    queries = zip(QUERY_IDS, QUERIES.tolist(), strict=True)
    write_lines(folder / "queries.jsonl", [{"_id": query, "text": query, "emb": row} for query, row in queries])
    assert decode_all(load_dataset(folder, columns={"vectors": "emb"})) == EXPECTED
    plain = load_dataset(folder)
    assert plain.vectors is None
    assert any("use column 'emb' as vectors, 1,536 dimensions" in str(notice) for notice in plain.notices)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_files_of_vectors_can_be_named(tmp_path, folder, suffix):
    for name in ("vectors.npy", "query_vectors.npy"):
        (folder / name).unlink()
    paths = []
    for name, ids, rows in (("a", IDS, DOCUMENTS), ("b", QUERY_IDS, QUERIES)):
        paths.append(tmp_path / f"{name}{suffix}")
        # Rows with ids may stand in any order.
        if suffix == ".npy":
            np.save(paths[-1], rows)
        elif suffix == ".npz":
            np.savez(paths[-1], vectors=rows[::-1], ids=np.array(ids[::-1]))
        else:
            pd.DataFrame({"id": ids[::-1], "emb": list(rows[::-1])}).to_parquet(paths[-1])
    assert decode_all(load_dataset(folder, document_vectors=paths[0], query_vectors=paths[1])) == EXPECTED


def test_vectors_beside_a_table_are_used(tmp_path):
    pd.DataFrame({"id": IDS, "text": TEXTS}).to_csv(tmp_path / "docs.csv", index=False)
    assert load_dataset(tmp_path / "docs.csv").vectors is None
    np.save(tmp_path / "docs.vectors.npy", DOCUMENTS)
    dataset = load_dataset(tmp_path / "docs.csv")
    assert torch.equal(dataset.vectors.vectors, torch.from_numpy(DOCUMENTS)) and dataset.vectors.file is not None


def test_queries_without_a_vector_are_left_out_and_said(folder):
    np.savez(folder / "query_vectors.npz", vectors=QUERIES[1:], ids=np.array(QUERY_IDS[1:]))
    (folder / "query_vectors.npy").unlink()
    dataset = load_dataset(folder)
    assert dataset.judged("test").ids == tuple(QUERY_IDS[1:]) and decode_all(dataset) == EXPECTED[1:]
    assert any("1 query has no vector in query_vectors.npz and is left out" in str(n) for n in dataset.notices)


def test_vectors_of_further_queries_are_ignored(folder):
    (folder / "query_vectors.npy").unlink()
    rows = np.concatenate([QUERIES, QUERIES[:1]])
    np.savez(folder / "query_vectors.npz", vectors=rows, ids=np.array([*QUERY_IDS, "further"]))
    assert decode_all(load_dataset(folder)) == EXPECTED


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("query_vectors.npy", "must have the documents' dimension, 1,536; got 3"),
        ("vectors.npy", "must have the documents' dimension, 3; got 1,536"),
    ],
)
def test_another_dimension_raises_error(folder, file, message):
    rows = np.eye(N_QUERIES if file.startswith("query") else N_DOCUMENTS, 3, dtype=np.float32)
    np.save(folder / file, rows)
    with pytest.raises(DataError, match=message):
        load_dataset(folder)


def test_what_does_not_fit_raises_error(tmp_path, folder):
    np.save(folder / "query_vectors.npy", QUERIES[1:])
    with pytest.raises(DataError, match=r"has 5 rows and no ids, and there are 6 queries; .*query_vectors\.ids\.txt"):
        load_dataset(folder)
    np.savez(folder / "query_vectors.npz", vectors=QUERIES, ids=np.array(list("abcdef")))
    (folder / "query_vectors.npy").unlink()
    with pytest.raises(DataError, match=r"a vector of none of the queries: its ids are like 'a', theirs like 'q0'"):
        load_dataset(folder)
    (folder / "query_vectors.npz").unlink()
    (folder / "vectors.npy").unlink()
    np.save(tmp_path / "q.npy", QUERIES)
    with pytest.raises(DataError, match="queries came with vectors and the documents with none"):
        load_dataset(folder, query_vectors=tmp_path / "q.npy")
    with pytest.raises(DataError, match="the data set has none; add a queries"):
        (folder / "queries.jsonl").unlink()
        load_dataset(folder, query_vectors=tmp_path / "q.npy")


def test_vectors_that_are_given_twice_raise_error(tmp_path):
    pd.DataFrame({"id": IDS, "text": TEXTS, "emb": list(DOCUMENTS)}).to_parquet(tmp_path / "a.parquet")
    np.save(tmp_path / "a.vectors.npy", DOCUMENTS)
    with pytest.raises(DataError, match=r"vectors in a column and in a\.vectors\.npy"):
        load_dataset(tmp_path / "a.parquet", columns={"vectors": "emb"})


def test_lengths_other_than_one_are_said_and_scaled_on_request(folder):
    np.save(folder / "vectors.npy", 3 * DOCUMENTS)
    np.save(folder / "query_vectors.npy", 2 * QUERIES)
    dataset = load_dataset(folder)
    assert sum("not of unit length" in str(notice) for notice in dataset.notices) == 2
    assert torch.equal(dataset.vectors.vectors, torch.from_numpy(3 * DOCUMENTS))
    scaled = load_dataset(folder, normalize=True)
    assert np.allclose(scaled.vectors.vectors, DOCUMENTS, atol=1e-6)
    assert np.allclose(scaled.queries.embeddings.vectors, QUERIES, atol=1e-6)
    assert scaled.vectors.file is None and np.load(folder / "vectors.npy")[0, 0] == 3 * DOCUMENTS[0, 0]
    np.save(folder / "vectors.npy", np.zeros_like(DOCUMENTS))
    with pytest.raises(DataError, match="40 vectors are all zero and have no direction"):
        load_dataset(folder, normalize=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), DIMENSION),
        pytest.param(lambda rows: pa.array(rows.tolist(), pa.large_list(pa.float64())), marks=deep),
        pytest.param(pa.FixedShapeTensorArray.from_numpy_ndarray, marks=deep),
    ],
)
def test_lists_of_parquet_of_any_kind_are_read(tmp_path, make):
    pq.write_table(pa.table({"id": IDS, "text": TEXTS, "emb": make(DOCUMENTS)}), tmp_path / "a.parquet")
    dataset = load_dataset(tmp_path / "a.parquet", columns={"vectors": "emb"})
    assert torch.equal(dataset.vectors.vectors, torch.from_numpy(DOCUMENTS))


def test_a_row_of_parquet_without_a_vector_raises_error(tmp_path):
    rows = [*DOCUMENTS[:2].tolist(), None]
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), DIMENSION)):
        columns = {"id": IDS[:3], "text": TEXTS[:3], "emb": pa.array(rows, kind)}
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        # Older pyarrow reads no lists of a fixed length with one missing, and says so.
        unread = f"Expected all lists to be of size={DIMENSION} but index 3 had size=0"
        with pytest.raises(DataError, match=rf"row 3: 'emb' must be a list of numbers; found nothing|{unread}"):
            load_dataset(tmp_path / "a.parquet", columns={"vectors": "emb"})


def test_documents_can_be_vectors_alone(tmp_path):
    pd.DataFrame({"id": IDS, "emb": list(DOCUMENTS)}).to_parquet(tmp_path / "a.parquet")
    dataset = load_dataset(tmp_path / "a.parquet", columns={"vectors": "emb"})
    assert dataset.corpus.texts == ("",) * N_DOCUMENTS and not dataset.notices and len(dataset.vectors) == N_DOCUMENTS


def test_rows_that_are_left_out_lose_their_vector(tmp_path):
    frame = pd.DataFrame({"id": ["a", "b", "a"], "text": ["x", "y", "z"], "kind": ["k", "l", "k"]})
    frame["emb"] = DOCUMENTS[:3].tolist()
    frame.to_parquet(tmp_path / "a.parquet")
    dataset = load_dataset(tmp_path / "a.parquet", columns={"vectors": "emb"}, repeated="first", where={"kind": ["l"]})
    assert dataset.vectors.ids == ("b",) and torch.equal(dataset.vectors.vectors[0], torch.from_numpy(DOCUMENTS[1]))


def test_sweep_and_tune_need_no_encoder(folder):
    dataset = load_dataset(folder)
    space, queries = engine.Space(dataset.corpus, dataset.vectors, "cpu"), dataset.judged("test")
    cells = list(engine.sweep(engine.grid("mmr", 2), space, queries, dataset.qrels["test"], k=3))
    vectors = engine.embed_queries(space, queries)
    assert [cell.mean for cell in cells] == [
        cell.mean for cell in engine.sweep(engine.grid("mmr", 2), space, vectors, dataset.qrels["test"], k=3)
    ]
    with pytest.raises(DataError, match=r"query_vectors\.npy beside queries\.jsonl"):
        engine.embed_queries(space, ["typed"])


def test_vectors_are_part_of_the_identity_of_queries(folder):
    queries = load_dataset(folder).queries
    plain = engine.Queries(queries.ids, queries.texts)
    assert queries != plain and queries == load_dataset(folder).queries
    assert queries.only(["q2"]).embeddings.vectors.tolist() == [QUERIES[2].tolist()]
    with pytest.raises(DataError, match=r"queries need one vector per id: 1 have none \(first: 'q9'\)"):
        engine.Queries(("q9",), ("x",), vectors=queries.vectors)
