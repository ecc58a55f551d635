"""What tests of encoders and of what is kept of them share."""

import pytest

from engine.data.models import encoder_model
from support.encoders import copy_model


@pytest.fixture
def batches(monkeypatch):
    """The batches that really went through a model."""
    seen = []
    real = encoder_model.Encoder.encode
    monkeypatch.setattr(
        encoder_model.Encoder, "encode", lambda self, texts, *a: seen.append(texts) or real(self, texts, *a)
    )
    return seen


@pytest.fixture
def copy(tmp_path):
    """Makes a folder of the bundled model with some files replaced; None leaves one out."""
    return lambda name="model", **files: copy_model(tmp_path / name, **files)
