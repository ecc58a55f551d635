"""A store of arrays takes one row of numbers for each id, and refuses all else."""

import numpy as np
import pytest

from engine.data.stores.arrays import ArrayStore
from engine.errors import DataError


@pytest.mark.parametrize(
    ("n_ids", "shape"), [(3, (2, 4)), (2, (3, 4)), (4, (4,)), (2, (2, 4, 1)), (0, (0, 4)), (2, (2, 0))]
)
def test_ids_and_vectors_that_do_not_fit_raise_error_with_both_sizes(n_ids, shape):
    with pytest.raises(DataError, match=r"vectors must have one row per id: \d ids, shape ") as caught:
        ArrayStore([f"d{row}" for row in range(n_ids)], np.ones(shape, np.float32))
    assert f"{n_ids} ids, shape {shape}" in str(caught.value)


def test_ids_find_their_rows():
    store = ArrayStore(["a", "b"], np.eye(2, 3, dtype=np.float32))
    assert store.dimension == 3 and store.position == {"a": 0, "b": 1}
