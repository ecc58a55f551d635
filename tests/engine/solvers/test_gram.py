"""Inner products that show neither their place, their company nor the order they were asked for in."""

import numpy as np
import pytest
import torch

from engine.solvers.gram import Gram, compute_products, fill_row


@pytest.mark.parametrize("d", [1, 3, 4, 383, 384])
def test_products_are_right_symmetric_and_blind_to_their_company(d: int) -> None:
    generator = torch.Generator().manual_seed(d)
    rows = torch.randn(1100, d, generator=generator)
    rows[700] = rows[3]
    gram = Gram(rows)
    whole = gram.fill_all_rows().copy()
    double = rows.double().numpy()
    size = np.linalg.norm(double, axis=1)
    assert (np.abs(whole - double @ double.T) <= 1e-14 * np.sqrt(d) * np.outer(size, size)).all()
    assert (whole == whole.T).all() and (whole.diagonal() == gram.squares).all()
    assert (whole[700] == whole[3]).all()
    part = Gram(rows[600:1100])
    for row in (7, 100):
        fill_row(part.columns, part.rows, part.filled, row)
        assert (part.rows[row] == whole[600 + row, 600:]).all()
    assert part.filled.sum() == 2
    queries = torch.randn(9, d, generator=generator)
    together = gram.score_queries(queries)
    assert all((gram.score_queries(queries[b : b + 1])[0] == together[b]).all() for b in range(9))


def test_products_of_a_view() -> None:
    columns = np.arange(24.0).reshape(4, 6)
    out = np.empty((1, 3))
    compute_products(np.ascontiguousarray(columns[:, 2:5]), columns[:, 2].copy().reshape(1, -1), out)
    assert out[0, 0] == columns[:, 2] @ columns[:, 2]
