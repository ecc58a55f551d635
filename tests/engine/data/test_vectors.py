"""Vectors brought along: numbers arrive as float32 with their ids, anything else is refused and nothing unpickled."""

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.data.readers import load_dataset
from engine.data.vectors import load_vectors
from engine.errors import DataError
from support.datafiles import beir, join_notices, write_file


@pytest.fixture
def load_rows(tmp_path):
    """Loads rows that were saved to a file."""

    def load(rows, **options):
        np.save(tmp_path / "v.npy", rows)
        return load_vectors(tmp_path / "v.npy", **options)

    return load


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", "int8", "int64", "uint16"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_vectors_become_float32(tmp_path, dtype, order, kind):
    array = np.asarray(np.random.default_rng(0).integers(-9, 9, (6, 3)), dtype=dtype, order=order)
    path = tmp_path / f"v.{kind}"
    np.save(path, array) if kind == "npy" else np.savez_compressed(path, vectors=array)
    vectors = load_vectors(path)
    assert vectors.vectors.dtype == torch.float32 and vectors.vectors.is_contiguous() and vectors.encoder is None
    assert np.array_equal(vectors.vectors.numpy(), array.astype(np.float32)) and vectors.ids == tuple("012345")


def test_normalized_rows_have_length_one(load_rows):
    rows = load_rows(np.array([[3.0, 4.0], [1e30, 1e30], [1e-30, 0]]), normalize=True).vectors
    assert torch.allclose(rows, torch.tensor([[0.6, 0.8], [0.5**0.5, 0.5**0.5], [1.0, 0.0]]))
    with pytest.raises(DataError, match=r"1 row of zeros alone, .* row 1 \(id '1'\)"):
        load_rows(np.array([[3.0, 4.0], [0, 0]]), normalize=True)


def test_ids_of_vectors_come_from_where_they_are(tmp_path):
    path = tmp_path / "v.npy"
    np.save(path, np.eye(3))
    write_file(tmp_path, "ids.txt", "\ufeff007\r\n a \r\n \r\n")
    assert load_vectors(path).ids == ("007", " a ", " ")
    write_file(tmp_path, "v.ids.txt", "x\ny\nz")
    assert load_vectors(path).ids == ("x", "y", "z") == load_vectors(path, tmp_path / "v.ids.txt").ids
    assert load_vectors(path, ["p", 8, np.str_("r")]).ids == ("p", "8", "r")
    for ids in (np.array(["a", "b", "1e5"]), np.array([b"a", b"b", b"1e5"])):
        np.savez(tmp_path / "v.npz", anything=np.eye(3), ids=ids, more=np.arange(3))
        assert load_vectors(tmp_path / "v.npz").ids == ("a", "b", "1e5")
    np.savez(tmp_path / "v.npz", vectors=np.eye(3), other=np.eye(3), ids=np.arange(3))
    assert load_vectors(tmp_path / "v.npz").ids == ("0", "1", "2")
    for ids, message in (
        (["a", "b"], "3 rows but 2 ids"),
        (["a", "b", "a"], "1 id more than once"),
        (["a", "b", 1.5], "row 2: the id"),
    ):
        with pytest.raises(DataError, match=message):
            load_vectors(path, ids)


def test_nothing_is_unpickled(tmp_path):
    objects = np.array([[1.0], [[2.0]]], dtype=object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "b.npz", vectors=objects, allow_pickle=True)
    np.savez(tmp_path / "c.npz", vectors=np.eye(2), ids=np.array(["a", "b"], dtype=object), allow_pickle=True)
    objects.dump(tmp_path / "d.npy")
    for name in ("a.npy", "b.npz", "c.npz", "d.npy"):
        with pytest.raises(DataError, match=rf"{name} holds Python objects.*unpickling.*np\.save"):
            load_vectors(tmp_path / name)
    (tmp_path / "e.npy").write_bytes(b"\x80")
    with pytest.raises(DataError, match=r"e\.npy is not a readable NumPy file: e\.npy begins with b'\\x80'"):
        load_vectors(tmp_path / "e.npy")


def test_rows_that_are_not_finite_are_named(load_rows):
    array = np.ones((9, 2))
    array[2:8, 1] = [np.nan, np.inf, -np.inf, np.nan, np.nan, np.nan]
    with pytest.raises(DataError, match=r"6 rows with NaN or infinity.*row 2 \(id '2'\).*row 6 \(id '6'\)$"):
        load_rows(array)
    with pytest.raises(DataError, match=r"1 row with values beyond float32 .* row 1"):
        load_rows(np.array([[1.0], [1e39]]))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), r"\(n, d\); found shape \(3,\)"),
        (np.ones((2, 2, 2)), "found shape"),
        (np.ones((0, 3)), "found shape"),
        (np.ones((3, 0)), "found shape"),
        (np.array([["a"]]), "found dtype <U1"),
        (np.ones((2, 2), complex), "complex128"),
        (np.ones((2, 2), bool), "bool"),
        (np.zeros((2, 2), "V2"), "V2"),
        (np.zeros((2, 2), "M8[s]"), "datetime64"),
    ],
)
def test_load_of_anything_but_a_numeric_matrix_raises_error(load_rows, array, message):
    with pytest.raises(DataError, match=message):
        load_rows(array)


def test_broken_vector_files_are_refused(tmp_path):
    np.save(tmp_path / "whole.npy", np.ones((50, 50)))
    np.savez(tmp_path / "whole.npz", vectors=np.ones((50, 50)))
    for name in ("whole.npy", "whole.npz"):
        raw = (tmp_path / name).read_bytes()
        for content in (b"", raw[:9], raw[:100], raw[:-3000], b"\x93NUMPY\x01\x00v\x00{'descr': 1}"):
            with pytest.raises(DataError, match="cut"):
                load_vectors(write_file(tmp_path, f"cut{Path(name).suffix}", content))
    np.savez(tmp_path / "many.npz", a=np.eye(2), b=np.eye(3))
    with pytest.raises(DataError, match=r"'vectors' or a single 2-D array; found a \(2, 2\), b \(3, 3\)"):
        load_vectors(tmp_path / "many.npz")
    np.savez(tmp_path / "bytes.npz", vectors=np.eye(1), ids=np.array([b"\xff"]))
    with pytest.raises(DataError, match="0xff"):
        load_vectors(tmp_path / "bytes.npz")
    with pytest.raises(DataError, match="does not exist"):
        load_vectors(tmp_path / "none.npy")


def test_bare_vectors_are_a_corpus_without_texts(tmp_path):
    np.save(tmp_path / "mine.npy", np.eye(3))
    dataset = load_dataset(tmp_path / "mine.npy")
    assert dataset.corpus.name == "mine" and dataset.corpus.texts == ("",) * 3 and len(dataset.queries) == 0
    assert dataset.vectors.ids == dataset.corpus.ids == ("0", "1", "2")
    assert [notice.count for notice in dataset.notices] == [3] and "without ids" in join_notices(dataset.notices)
    write_file(tmp_path, "mine.ids.txt", "a\nb\nc\n")
    assert load_dataset(tmp_path / "mine.npy").notices == ()


def test_vectors_in_a_folder_follow_its_corpus(tmp_path):
    np.save(beir(tmp_path) / "vectors.npy", np.eye(4))
    dataset = load_dataset(tmp_path)
    assert dataset.vectors.ids == dataset.corpus.ids and "order of the corpus" in join_notices(dataset.notices)
    ids = write_file(tmp_path, "vectors.ids.txt", "d2\nd0\nd3\nd1\n")
    dataset = load_dataset(tmp_path)
    assert dataset.vectors.ids == dataset.corpus.ids == ("d0", "d1", "d2", "d3") and dataset.notices == ()
    assert dataset.vectors.vectors.argmax(1).tolist() == [1, 3, 0, 2]
    ids.write_text("d2\nd0\nx\ny\n")
    with pytest.raises(DataError, match=r"2 ids without a vector .*'d1', 'd3'\), 2 ids not in the corpus .*'x', 'y'"):
        load_dataset(tmp_path)
    ids.unlink()
    for rows in (3, 5):
        np.save(tmp_path / "vectors.npy", np.eye(rows))
        message = rf"vectors\.npy has {rows} rows and no ids, the corpus 4 documents; .*vectors\.ids\.txt"
        with pytest.raises(DataError, match=message):
            load_dataset(tmp_path)


def test_rows_that_are_not_unit_are_remarked_on(tmp_path):
    np.save(tmp_path / "v.npy", np.array([[1, 0], [3, 4], [0, 0]], dtype=np.float32))
    assert "2 vectors are not of unit length" in join_notices(load_dataset(tmp_path / "v.npy").notices)
    np.save(tmp_path / "u.npy", np.array([[1, 0], [0.6, 0.8]], dtype=np.float32))
    assert "unit length" not in join_notices(load_dataset(tmp_path / "u.npy").notices)


def test_float32_rows_stay_in_their_file_until_they_are_scaled(tmp_path):
    rows = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "vectors.npy", rows)
    content = (tmp_path / "vectors.npy").read_bytes()
    mapped = load_vectors(tmp_path / "vectors.npy")
    with (tmp_path / "vectors.npy").open("r+b") as file:
        file.seek(-4, 2)
        file.write(np.float32(7).tobytes())
    assert mapped.vectors[-1, -1] == 7, "read from the file, not from a copy"
    (tmp_path / "vectors.npy").write_bytes(content)
    scaled = load_vectors(tmp_path / "vectors.npy", normalize=True).vectors
    assert torch.allclose(scaled.norm(dim=1), torch.ones(4))
    mapped.vectors[0, 0] = 99
    assert (tmp_path / "vectors.npy").read_bytes() == content, "no write reaches the file"


def test_rows_whose_sum_overflows_are_finite(tmp_path):
    rows = np.full((3, 4), 3e38, dtype=np.float32)
    np.save(tmp_path / "vectors.npy", rows)
    assert (load_vectors(tmp_path / "vectors.npy").vectors.numpy() == rows).all()


def test_bits_of_bfloat16_raise_error(tmp_path):
    rows = torch.nn.functional.normalize(torch.randn(5, 64, generator=torch.Generator().manual_seed(0)))
    bits = rows.bfloat16().view(torch.uint16).numpy()
    for name, array in (("a.npy", bits), ("b.npy", bits.view("V2"))):
        np.save(tmp_path / name, array)
        with pytest.raises(DataError, match="bits are those of bfloat16; save float32"):
            load_vectors(tmp_path / name)
    # The remedy of the message gives the numbers back.
    np.save(tmp_path / "c.npy", (bits.view("uint16").astype("uint32") << 16).view("float32"))
    assert torch.equal(load_vectors(tmp_path / "c.npy").vectors, rows.bfloat16().float())


def test_whole_numbers_of_16_bits_are_read(tmp_path):
    for numbers in (np.arange(40).reshape(4, 10), np.random.default_rng(0).integers(0, 65536, (4, 100))):
        np.save(tmp_path / "a.npy", numbers.astype("uint16"))
        assert load_vectors(tmp_path / "a.npy").vectors.tolist() == numbers.tolist()
