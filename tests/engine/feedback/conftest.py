"""The space of the tests of feedback."""

import pytest

from support.feedback import random_space


@pytest.fixture(scope="session")
def space():
    return random_space()
