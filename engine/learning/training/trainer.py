"""Steps of sentence-transformers' CrossEncoderTrainer: silent, off the hub, and stopped between two of them."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from engine.errors import Cancelled, FrontierError
from engine.learning.training.loop import TRAINING
from engine.progress import Progress, Stop

if TYPE_CHECKING:
    from engine.learning.training.cross_encoder import Reranking

Lists = list[tuple[str, list[str], list[float]]]
"""Queries, each with documents and their grades, 0 for irrelevant ones."""
WARM = 0.1
"""Share of the steps in which the step size rises; it falls to 0 in the others."""


def needs() -> None:
    """Raise a FrontierError where what the trainer needs is not installed."""
    try:
        import accelerate  # noqa: F401
        import datasets  # noqa: F401
    except ImportError as error:
        raise FrontierError(
            f"training a cross-encoder needs {error.name or 'datasets'}, which is not installed: "
            "pip install 'frontier-retrieval[train]'"
        ) from None


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Global random numbers that begin with a seed inside, and go on outside as if nothing had been drawn."""
    of_random, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(of_random)
        np.random.set_state(of_numpy)


def fit(
    reader: Any,
    lists: Lists,
    settings: Reranking,
    seed: int,
    look: Callable[[float], None],
    progress: Progress | None,
    stop: Stop | None,
) -> str:
    """Train a CrossEncoder in place, and say why it ended; look: called after every epoch with the mean loss."""
    from datasets import Dataset
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments, losses
    from transformers import PrinterCallback, TrainerCallback

    if settings.loss == "lists":
        held = sum(len(documents) for _, documents, _ in lists) / len(lists)
        batch = max(1, round(settings.batch / held))
        # −1: all documents of a step at once.
        loss = losses.LambdaLoss(reader, mini_batch_size=-1)
        columns = {"query": [q for q, _, _ in lists], "documents": [d for _, d, _ in lists]}
        columns["labels"] = [grades for _, _, grades in lists]
    else:
        batch = settings.batch
        pairs = [(q, d, float(g > 0)) for q, own, grades in lists for d, g in zip(own, grades, strict=True)]
        columns = dict(zip(("query", "document", "label"), map(list, zip(*pairs, strict=True)), strict=True))
        relevant = sum(columns["label"])
        loss = losses.BinaryCrossEntropyLoss(reader, pos_weight=torch.tensor((len(pairs) - relevant) / relevant))
    steps = -(-len(columns["query"]) // batch)
    total = steps * settings.epochs
    seen: list[float] = []

    class Trainer(CrossEncoderTrainer):
        def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
            """No card: it would ask the hub what it knows of the model."""

        def training_step(self, *args: Any, **more: Any) -> torch.Tensor:
            found = super().training_step(*args, **more)
            seen.append(float(found))
            return found

    class Between(TrainerCallback):
        why = ""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            epoch = (state.global_step - 1) // steps
            if not math.isfinite(seen[-1]):
                self.why = f"the loss was {seen[-1]} in epoch {epoch}"
            elif stop is not None and stop.is_set():
                self.why = f"stopped by hand in epoch {epoch}"
            if progress is not None:
                progress(state.global_step, total, TRAINING)
            control.should_training_stop |= bool(self.why)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            mean = sum(seen) / max(1, len(seen))
            seen.clear()
            if self.why:
                return
            try:
                look(mean)
            except Cancelled:
                self.why = f"stopped by hand after epoch {(state.global_step - 1) // steps}"
                control.should_training_stop = True

    with tempfile.TemporaryDirectory(prefix="frontier-") as folder:
        args = CrossEncoderTrainingArguments(
            output_dir=folder,
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=batch,
            learning_rate=settings.rate,
            weight_decay=settings.weight_decay,
            warmup_steps=round(WARM * total),
            seed=seed,
            data_seed=seed,
            use_cpu=reader.device.type == "cpu",
            dataloader_pin_memory=reader.device.type != "cpu",
            eval_strategy="no",
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            push_to_hub=False,
            disable_tqdm=True,
        )
        between = Between()
        trainer = Trainer(reader, args, train_dataset=Dataset.from_dict(columns), loss=loss, callbacks=[between])
        trainer.remove_callback(PrinterCallback)
        if progress is not None:
            progress(0, total, TRAINING)
        trainer.train()
    return between.why or f"all {settings.epochs} epochs done"
