"""A loaded corpus: the vectors that it has, of which queries."""

import pytest
import torch

from dashboard.services.source import Loaded, Source
from engine.values import Dataset, Queries
from support.rankings import space_of


@pytest.mark.parametrize("ids, texts", [(("c",), ("one",)), (("a",), ("two",)), (("a", "c"), ("one", "three"))])
def test_a_query_of_another_origin_has_no_vector_here(ids, texts):
    space = space_of(torch.eye(3))
    dataset = Dataset(space.corpus, Queries(("a", "b"), ("one", "two")))
    loaded = Loaded(source=Source("things"), dataset=dataset, space=space, queries=torch.eye(3)[:2])
    assert torch.equal(loaded.vectors_of(Queries(("b",), ("two",))).vectors, torch.eye(3)[1:2])
    assert loaded.vectors_of(Queries(ids, texts)) is None
