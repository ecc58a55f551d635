"""One order of arguments: ids first, then what they name; the older order of Embeddings warns and works."""

import warnings

import numpy as np
import pytest
import torch

import engine

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_ids_come_first_everywhere():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = [engine.Corpus(("a", "b"), ("x", "y")), engine.Queries(("a", "b"), ("x", "y"))]
        made.append(engine.Embeddings(("a", "b"), ROWS))
        engine.Embeddings(vectors=ROWS, ids=("a", "b"))
    assert all(value.ids == ("a", "b") for value in made)


@pytest.mark.parametrize("rows", [ROWS, torch.from_numpy(ROWS), ROWS.tolist()])
@pytest.mark.parametrize("ids", [("a", "b"), ["a", "b"], np.array(["a", "b"])])
def test_vectors_first_warns_and_works_as_before(rows, ids):
    with pytest.warns(DeprecationWarning, match="takes ids first, then vectors") as caught:
        old = engine.Embeddings(rows, ids, None, ("x", "y"))
    assert caught[0].filename == __file__
    new = engine.Embeddings(ids, rows, None, ("x", "y"))
    assert old == new and old.texts == new.texts and old.ids == ("a", "b") and torch.equal(old.vectors, new.vectors)


def test_columns_of_queries_go_along_and_are_no_part_of_their_identity():
    queries = engine.Queries(("a", "b", "c"), ("x", "y", "z"), {"region": ("n", "s", "n")})
    assert queries == engine.Queries(queries.ids, queries.texts)
    assert queries.only(["c", "a"]).metadata == {"region": ("n", "n")}
    with pytest.raises(engine.DataError, match="metadata 'region' needs one value per id: 1 for 2 ids"):
        engine.Queries(("a", "b"), ("x", "y"), {"region": ("n",)})
