"""One cache folder for the whole run, apart from the user's; one torch thread, as elsewhere two can be far slower."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_HOME = tempfile.mkdtemp(prefix="frontier-tests-")
os.environ["FRONTIER_HOME"] = _HOME
os.environ["FRONTIER_THREADS"] = "1"

import torch  # noqa: E402

torch.set_num_threads(1)


def pytest_sessionfinish(session, exitstatus):
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def demo():
    """(data set, space) of the demo corpus with the bundled encoder."""
    import engine

    dataset = engine.load_dataset("numpy-api")
    return dataset, engine.Space(dataset.corpus, engine.embed(dataset.corpus))


@pytest.fixture(scope="session")
def given(tmp_path_factory):
    """What scorers need of the world, by name: a tiny model."""
    from tiny_models import tiny_cross_encoder

    return {"cross_encoder": {"model": str(tiny_cross_encoder(tmp_path_factory.mktemp("tiny")))}}
