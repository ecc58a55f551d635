"""Cross-encoder models: load one, and score pairs of query and document in batches.

Weights come from safetensors files only, and code from no model: no file of a model is run or unpickled.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from engine.data.models import encoder_model, hub
from engine.errors import FrontierError
from engine.values import replace_surrogates

_rerankers: "OrderedDict[tuple[str, str], CrossEncoderModel]" = OrderedDict()
_lock = threading.RLock()


class CrossEncoderModel(encoder_model.OnDevice):
    """A cross-encoder in memory."""

    def __init__(self, model: Any, name: str, device: str) -> None:
        super().__init__(model, device, f"cross-encoder {name!r}")
        self.name = name

    def score(
        self, query: str, texts: Sequence[str], batch_size: int = 32, on_batch: Callable[[int], None] = lambda _: None
    ) -> list[float]:
        """Return one score per text, higher is more relevant: the output of the model's last activation.

        Equal texts are scored once, so they tie. on_batch: called before each batch with the number of texts scored.
        """
        clean_query, clean_texts = replace_surrogates(query), [replace_surrogates(text) for text in texts]
        # Batches of like length compute little on padding; each holds documents of one query only.
        sorted_texts = sorted(set(clean_texts), key=lambda text: (-len(text), text))
        score_by_text: dict[str, float] = {}
        for start in range(0, len(sorted_texts), batch_size):
            on_batch(len(score_by_text))
            batch = sorted_texts[start : start + batch_size]
            scores = self.in_batches(batch, partial(self._scores, clean_query))
            score_by_text.update(zip(batch, scores.double().tolist(), strict=True))
        return [score_by_text[text] for text in clean_texts]

    def _scores(self, query: str, texts: Sequence[str]) -> Tensor:
        """Score one batch of texts for a query, (len(texts),)."""
        scores: Tensor = self.model.predict(
            [(query, text) for text in texts], batch_size=len(texts), show_progress_bar=False, convert_to_tensor=True
        )
        return scores


def load(name: str, device: str | None = None) -> CrossEncoderModel:
    """Load a cross-encoder by folder or Hugging Face name, shared by all callers.

    device: None for a GPU if there is one. Raises FrontierError for a model that is not there or pickled, needs its own
    code, or gives several numbers a pair.
    """
    device = encoder_model.device_of(device)
    folder = _find_folder(name)
    model_key = (hub.fingerprint(folder), device)

    def make(actual_device: str) -> CrossEncoderModel:
        """Build the cross-encoder on a device."""
        return CrossEncoderModel(_build_model(name, folder, actual_device), name, actual_device)

    return encoder_model.get_shared(_rerankers, _lock, model_key, lambda: encoder_model.place_model(make, device))


def load_unshared(name: str, device: str) -> Any:
    """Build a cross-encoder for training, which no other caller shares, on a device.

    A missing head, the last layer that turns a pair into a relevance, is drawn from torch's global generator. Raises
    FrontierError for a model that is not there or pickled, needs its own code, or gives several numbers a pair.
    """
    return _build_model(name, _find_folder(name), device)


def needs_download(name: str) -> bool:
    """Return True if a model must be downloaded.

    Raises FrontierError for anything but a folder or a valid name.
    """
    with _as_cross_encoder():
        return hub.find_local_folder(name) is None


@contextmanager
def _as_cross_encoder() -> Iterator[None]:
    """Reword the hub's errors for cross-encoders, of which none is bundled."""
    try:
        yield
    except FrontierError as error:
        message = str(error).replace("the encoder ", "the cross-encoder ", 1).replace(" or use 'bundled'", "")
        # The advice on pickled weights has code that converts a model, which needs the class of a cross-encoder.
        load_call = "import {0}; {0}("
        message = message.replace(load_call.format("SentenceTransformer"), load_call.format("CrossEncoder"))
        raise FrontierError(message.replace("encoder must be 'bundled', a folder", "model must be a folder")) from error


def fingerprint(name: str) -> str:
    """Compute SHA-256 of the model's files, downloaded if need be. Raises FrontierError."""
    return hub.fingerprint(_find_folder(name))


def _find_folder(name: str) -> Path:
    """Return the folder of a cross-encoder, downloaded if need be. Raises FrontierError."""
    with _as_cross_encoder():
        return hub.folder_of(name)


def _build_model(name: str, folder: Path, device: str) -> Any:
    """Build a cross-encoder, which scores pairs of query and text, on a device.

    name: for errors. Raises FrontierError for a folder that holds none, or one that gives several numbers a pair.
    """
    from sentence_transformers import CrossEncoder

    with encoder_model.loading(f"cross-encoder {name!r}", folder, "CrossEncoder in safetensors that"):
        weights = encoder_model.SAFE_WEIGHTS
        model = CrossEncoder(str(folder), device=device, model_kwargs=weights, **encoder_model.OFFLINE_SETTINGS).eval()
        encoder_model.check_weights(model, folder)
        labels = model.num_labels
    # A reranker needs one relevance a pair; a classifier's several labels have no order.
    if labels != 1:
        raise FrontierError(
            f"the cross-encoder {name!r} gives {labels} numbers a pair; relevance is one: choose a model with one label"
        )
    return model
