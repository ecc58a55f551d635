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

_loaded: "OrderedDict[tuple[str, str], CrossEncoderModel]" = OrderedDict()
_lock = threading.RLock()


class CrossEncoderModel(encoder_model.OnDevice):
    """A cross-encoder in memory."""

    def __init__(self, model: Any, name: str, device: str) -> None:
        super().__init__(model, device, f"cross-encoder {name!r}")
        self.name = name

    def score(
        self, query: str, texts: Sequence[str], batch_size: int = 32, on_batch: Callable[[int], None] = lambda _: None
    ) -> list[float]:
        """One score per text, higher is more relevant: the output of the model's last activation.

        Equal texts are scored once, so they tie. on_batch: called before each batch with the number of texts scored.
        """
        clean_query, clean = replace_surrogates(query), [replace_surrogates(text) for text in texts]
        # Batches of like length compute little on padding; each holds documents of one query only.
        order = sorted(set(clean), key=lambda text: (-len(text), text))
        by_text: dict[str, float] = {}
        for start in range(0, len(order), batch_size):
            on_batch(len(by_text))
            batch = order[start : start + batch_size]
            scores = self.in_batches(batch, partial(self._scores, clean_query))
            by_text.update(zip(batch, scores.double().tolist(), strict=True))
        return [by_text[text] for text in clean]

    def _scores(self, query: str, texts: Sequence[str]) -> Tensor:
        scores: Tensor = self.model.predict(
            [(query, text) for text in texts],
            batch_size=len(texts),
            show_progress_bar=False,
            convert_to_tensor=True,
        )
        return scores


def load(name: str, device: str | None = None) -> CrossEncoderModel:
    """A cross-encoder by folder or Hugging Face name, shared by all callers; device: None for a GPU if there is one.

    Raises FrontierError for a model that is not there or pickled, needs its own code, or gives several numbers a pair.
    """
    device = encoder_model.device_of(device)
    folder = _folder(name)
    key = (hub.fingerprint(folder), device)

    def make(where: str) -> CrossEncoderModel:
        return CrossEncoderModel(_model(name, folder, where), name, where)

    return encoder_model.shared(_loaded, _lock, key, lambda: encoder_model.placed(make, device))


def unshared(name: str, device: str) -> Any:
    """A fresh CrossEncoder for training; a missing head is drawn from torch's global generator. Raises as `load`."""
    return _model(name, _folder(name), device)


def absent(name: str) -> bool:
    """Return True if a model must be downloaded.

    Raises FrontierError for anything but a folder or a valid name.
    """
    with _as_cross_encoder():
        return hub.local(name) is None


@contextmanager
def _as_cross_encoder() -> Iterator[None]:
    """Reword the hub's errors for cross-encoders, of which none is bundled."""
    try:
        yield
    except FrontierError as error:
        message = str(error).replace("the encoder ", "the cross-encoder ", 1).replace(" or use 'bundled'", "")
        converting = "import {0}; {0}("
        message = message.replace(converting.format("SentenceTransformer"), converting.format("CrossEncoder"))
        raise FrontierError(message.replace("encoder must be 'bundled', a folder", "model must be a folder")) from error


def fingerprint(name: str) -> str:
    """SHA-256 of the model's files, downloaded if need be. Raises as `load`."""
    return hub.fingerprint(_folder(name))


def _folder(name: str) -> Path:
    with _as_cross_encoder():
        return hub.folder_of(name)


def _model(name: str, folder: Path, device: str) -> Any:
    from sentence_transformers import CrossEncoder

    with encoder_model.loading(f"cross-encoder {name!r}", folder, "CrossEncoder in safetensors that"):
        weights = encoder_model.SAFE_WEIGHTS
        model = CrossEncoder(str(folder), device=device, model_kwargs=weights, **encoder_model.HARMLESS).eval()
        encoder_model.check_weights(model, folder)
        labels = model.num_labels
    if labels != 1:
        raise FrontierError(
            f"the cross-encoder {name!r} gives {labels} numbers a pair; relevance is one: choose a model with one label"
        )
    return model
