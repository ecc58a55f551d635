"""Cross-encoders: models that read a query and a document together. Loading one, and scoring pairs in batches.

Weights come from safetensors files only, and code from no model: nothing that a folder holds is run or unpickled.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from engine.data import hub, models
from engine.errors import FrontierError
from engine.values import showable

_KEPT = 2
_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}

_lock = threading.RLock()
_loaded: OrderedDict[tuple[str, str], Reranker] = OrderedDict()


class Reranker:
    """A loaded cross-encoder. Several threads may share one: batches take turns."""

    def __init__(self, model: Any, name: str) -> None:
        self.model, self.name = model, name
        self._turn = threading.Lock()  # fast tokenizers refuse a second thread, "Already borrowed"

    def score(
        self, query: str, texts: Sequence[str], batch_size: int = 32, told: Callable[[int], None] = lambda _: None
    ) -> list[float]:
        """One number a text, higher is more relevant: what the model's own last activation gives.

        Equal texts are scored once, so they tie. told: called before each batch with how many texts are scored.
        """
        ask, clean = showable(query), [showable(text) for text in texts]
        # Batches of like length compute little on padding, and hold one query's documents: no other query shows.
        order = sorted(set(clean), key=lambda text: (-len(text), text))
        found: dict[str, float] = {}
        for at in range(0, len(order), batch_size):
            told(len(found))
            batch = order[at : at + batch_size]
            with self._turn:
                scores = self.model.predict(
                    [(ask, text) for text in batch],
                    batch_size=len(batch),
                    show_progress_bar=False,
                    convert_to_tensor=True,
                )
            found.update(zip(batch, scores.double().tolist(), strict=True))
        return [found[text] for text in clean]


def load(name: str, device: str | None = None) -> Reranker:
    """The cross-encoder of that name, a folder or one on the Hugging Face hub; the last few stay in memory.

    device: None for a GPU if there is one. Raises FrontierError where there is none, it would have to be unpickled or
    needs code of its own, or gives more than one number a pair.
    """
    device = models.device_of(device)
    folder = _folder(name)
    key = (hub.fingerprint(folder), device)
    with _lock:
        if key not in _loaded:
            _loaded[key] = Reranker(_model(name, folder, device), name)
            while len(_loaded) > _KEPT:
                _loaded.popitem(last=False)
        _loaded.move_to_end(key)
        return _loaded[key]


def unshared(name: str, device: str) -> Any:
    """A CrossEncoder of one's own, to be changed. A model without a head of its own gets a new one, drawn from torch's
    global generator. Raises as `load` does."""
    return _model(name, _folder(name), device)


def absent(name: str) -> bool:
    """Whether it would have to be downloaded. Raises FrontierError for what is neither a folder nor a name."""
    with _as_cross_encoder():
        return hub.local(name) is None


@contextmanager
def _as_cross_encoder() -> Iterator[None]:
    """The hub's errors, speaking of cross-encoders: there is no bundled one."""
    try:
        yield
    except FrontierError as error:
        said = str(error).replace("the encoder ", "the cross-encoder ", 1).replace(" or use 'bundled'", "")
        raise FrontierError(said.replace("encoder must be 'bundled', a folder", "model must be a folder")) from error


def fingerprint(name: str) -> str:
    """SHA-256 of the model's files, downloaded if need be. Raises as `load` does."""
    return hub.fingerprint(_folder(name))


def _folder(name: str) -> Path:
    with _as_cross_encoder():
        folder = hub.folder_of(name)
    files = list(hub.walked(folder))
    safe = {path.parent for path in files if path.suffix == ".safetensors"}
    if unsafe := sorted(p for p in files if p.suffix in _PICKLES and p.parent not in safe):
        raise FrontierError(
            f"the cross-encoder {name!r} holds weights that would have to be unpickled ({unsafe[0].name}), which can "
            "run code; save it with save_pretrained, which writes safetensors"
        )
    return folder


def _model(name: str, folder: Path, device: str) -> Any:
    from sentence_transformers import CrossEncoder

    try:
        with models.quiet():
            model = CrossEncoder(
                str(folder),
                device=device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True, "dtype": torch.float32},
            ).eval()
        labels = model.num_labels
    except Exception as error:  # whatever a foreign folder makes the loader raise, the person needs the folder
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FrontierError(
            f"the cross-encoder {name!r} cannot be loaded from {folder}: {reason}. It must be a sentence-transformers "
            "CrossEncoder in safetensors that needs no code of its own"
        ) from error
    if labels != 1:
        raise FrontierError(
            f"the cross-encoder {name!r} gives {labels} numbers a pair; relevance is one: choose a model with one label"
        )
    return model
