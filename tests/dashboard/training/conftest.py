"""A corpus to train on."""

import pytest

from support.train_page import write_source


@pytest.fixture(scope="module")
def source(own_home):
    return write_source(own_home)
