"""A corpus to train on."""

import pytest

from support.train_page import written


@pytest.fixture(scope="module")
def source(own_home):
    return written(own_home)
