"""Cross-encoder fine-tuning for reranking: Nogueira & Cho 2019; Luan et al. 2021, §4.1.

It learns from relevant documents, from irrelevant ones that the first stage ranks high, and from random ones. The steps
are those of sentence-transformers' CrossEncoderTrainer, silent, off the hub and stoppable between two of them; the best
epoch is the one with the best nDCG@10 on dev, reranked as a decoder reranks.
"""

import json
import math
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from engine.data import cache
from engine.data.cache import check_new, translate_write_errors
from engine.data.models import encoder_model, rerankers
from engine.decoder import Decoder, decode
from engine.errors import Cancelled, DataError, FrontierError, ParamError
from engine.evaluation.metrics import measure
from engine.params import Choice, Declared, Whole, check_values, declare, params_of, values_of
from engine.progress import Progress, Reporter, Stop, report_to, with_cancellation
from engine.scoring.cross_encoder import CrossEncoder
from engine.space import Space
from engine.stages import make
from engine.training.dataset import AnyQueries, Splits, disjoint_splits, relevant_rows, take_queries
from engine.training.loop import SEED, TRAINING_LABEL, generator_of
from engine.training.metrics import mean_and_error
from engine.training.recipe import BATCH, DECAY, N_EPOCHS, rate_of
from engine.values import Corpus, Embeddings, Qrels, replace_surrogates

MINING, MEASURING = "looking for what is mistaken for relevant", "reranking dev"
DEV_SET_SIZE = 10
"""k of the dev metrics."""
HISTORY_FILE = "training.json"
WARM_UP_SHARE = 0.1
"""Share of the steps in which the step size rises; it falls to 0 in the others."""
N_NEGATIVES = Whole(4, "", 0, 10_000, comfortable=(0, 16), help="Irrelevant documents a query, of")
_QUERY_BLOCK_SIZE = 256

Lists = list[tuple[str, list[str], list[float]]]
"""Queries, each with documents and their grades, 0 for irrelevant ones."""


@dataclass(frozen=True, kw_only=True)
class Reranking(Declared):
    """A cross-encoder that reranks what a first stage retrieves."""

    loss: str = declare(
        Choice("pairs", "loss", ("pairs", "lists")),
        "pairs: binary cross-entropy of a document. lists: LambdaLoss of a query's documents by grades.",
    )
    retrieve: str = declare(
        Choice("bm25", "retrieve", ("bm25", "dense")),
        "The first stage: what it returns is reranked on dev, and holds the hard negatives.",
    )
    depth: int = declare(Whole(50, "n", 1, 10_000, comfortable=(10, 200)), "How many documents it returns.")
    hard: int = declare(N_NEGATIVES, f"{N_NEGATIVES.help} those that the first stage returns.", symbol="hard")
    sampled: int = declare(N_NEGATIVES, f"{N_NEGATIVES.help} the whole corpus.", symbol="sampled")
    rate: float = declare(rate_of(2e-5, "η", "Step size."), comfortable=(1e-6, 1e-3))
    epochs: int = declare(N_EPOCHS, default=3, comfortable=(1, 10))
    batch: int = declare(BATCH, "Pairs a step; of lists, as many as hold about so many pairs.", default=32)
    weight_decay: float = declare(DECAY)

    def __post_init__(self) -> None:
        """Raise a ParamError if the settings give no negatives to learn from."""
        super().__post_init__()
        if self.hard == self.sampled == 0:
            raise ParamError("hard and sampled are both 0: there is nothing to tell relevant documents from")


@dataclass(frozen=True, slots=True)
class Look:
    """Quality on dev after one epoch, with the standard errors of the means."""

    epoch: int  # its number, −1 before the first step
    ndcg: float  # ndcg, ndcg_se: nDCG@10
    ndcg_se: float
    mrr: float  # mrr, mrr_se: MRR@10
    mrr_se: float
    loss: float | None = None  # mean over the steps, None before the first


def train_cross_encoder(
    model: str,
    corpus: Corpus | Space,
    queries: AnyQueries,
    qrels: Splits,
    *,
    out: str | Path,
    train: str = "train",
    dev: str = "dev",
    seed: int = SEED.default,
    device: str | None = None,
    watch: Callable[[Look], None] | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **params: Any,
) -> Path:
    """Fine-tune a cross-encoder, and write the best one by nDCG@10 on dev, for the scorer cross_encoder.

    Queries of train whose text is in dev are left out.

    Parameters
    ----------
    model : str
        A folder, or a name on the Hugging Face hub; a model without a head for relevance gets a new one.
    corpus : Corpus or Space
        A Space for retrieve="dense"; otherwise the texts suffice.
    queries : AnyQueries
        The queries with their texts.
    qrels : Splits
        Judgements by split.
    out : str or Path
        A new or empty folder for the model and training.json, the history.
    train : str
        The split to train on.
    dev : str
        The split that chooses the best state.
    seed : int
        The seed of the random numbers.
    device : str or None
        "cpu", or None for a GPU if there is one.
    watch : callable or None
        Called with a Look before the first epoch and after each.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The training ends between two steps once it returns true, with the best state so far.
    **params
        The parameters that `Reranking` declares.

    Returns
    -------
    Path
        The folder of the model.

    Raises
    ------
    ParamError
        If an argument is invalid.
    DataError
        If the data do not fit or splits share queries.
    Cancelled
        If it is stopped before dev was measured.
    FrontierError
        If the extra `train` is not installed, or the model cannot be loaded.

    Examples
    --------
    >>> folder = engine.train_cross_encoder("model", corpus, queries, qrels, out="tuned")  # doctest: +SKIP
    """
    _check_installed()
    seed = SEED.check(seed)
    settings = Reranking(**check_values(params_of(Reranking), params, "training a cross-encoder"))
    device = _resolve_device(device)
    gathered = _gather(settings, corpus, queries, qrels, train, dev)
    out, reporter = Path(out), Reporter(progress, stop)
    check_new(out, "out")
    # −1 is the generator before the first epoch.
    training_lists = _build_lists(settings, gathered, generator_of(seed, -1), reporter)
    # A new head is drawn from the global generator, and so is dropout in every step.
    with _seed_torch(seed), encoder_model.silence_libraries():
        reader = rerankers.load_unshared(model, device)
        run_record = _Record(
            facts={"model": model, "settings": values_of(settings), "seed": seed}, out=out, reader=reader,
            measured=partial(_measure_dev, reader, settings, gathered), watch=watch, reporter=reporter,
        )  # fmt: skip
        run_record.look()
        run_record.write(fit(reader, training_lists, settings, seed, run_record.look, reporter))
    return out


class _RerankingData(NamedTuple):
    """The data of a training: the space, the train queries with grades, and the dev queries."""

    space: Space
    train: AnyQueries
    relevant: list[dict[int, int]]  # row → grade of the relevant documents of each query of train
    dev: AnyQueries
    qrels: Qrels  # judgements of dev


@dataclass(eq=False, kw_only=True)
class _Record:
    """Dev history of a run under way; writes the best model and the history to the folder `out`.

    facts: what the history file says beside the history; measured: returns nDCG@10 and MRR@10 on dev, each with its
    error; watch: called with every Look
    """

    facts: Mapping[str, Any]
    out: Path
    reader: Any
    measured: Callable[[], tuple[float, float, float, float]]
    watch: Callable[[Look], None] | None
    reporter: Reporter
    history: list[Look] = field(default_factory=list)
    best: int = -1

    def look(self, loss: float | None = None) -> None:
        """Measure the model on dev after an epoch, record it, and save the model if it is the best so far.

        The best model has the highest nDCG. loss: mean loss of the epoch, None before training
        """
        with report_to(*self.reporter.relabel(MEASURING)):
            look = Look(len(self.history) - 1, *self.measured(), loss)
        self.history.append(look)
        # The model before training is a candidate too: fine-tuning may only do harm. The history begins with epoch −1,
        # so that epoch i is at index i + 1.
        if len(self.history) == 1 or look.ndcg > self.history[self.best + 1].ndcg:
            self.best = look.epoch
            _save_model(self.reader, self.out)
        self.write("")
        if self.watch is not None:
            self.watch(look)

    def write(self, stopped: str) -> None:
        """Write the history file; stopped: the reason why the training ended, "" while it goes on."""
        history = [asdict(look) for look in self.history]
        content = {**self.facts, "history": history, "best": self.best, "stopped": stopped}
        json_text = json.dumps(content, ensure_ascii=False, indent=1)
        cache.write(self.out / HISTORY_FILE, f"{json_text}\n".encode())


def _check_installed() -> None:
    """Raise a FrontierError where a library that the trainer needs is not installed."""
    try:
        import accelerate  # noqa: F401
        import datasets  # noqa: F401
    except ImportError as error:
        raise FrontierError(
            f"training a cross-encoder needs {error.name or 'datasets'}, which is not installed: "
            "pip install 'frontier-retrieval[train]'"
        ) from None


def _resolve_device(device: str | None) -> str:
    """Return the device's name; the first GPU if there is one for None. Raises ParamError for other GPUs."""
    device_name = encoder_model.device_of(device)
    if device_name not in ("cpu", "cuda", "cuda:0"):
        raise ParamError(
            f"device must be 'cpu', 'cuda' or None for a GPU if there is one, as the trainer takes the first GPU "
            f"that it sees; got {device!r}: set CUDA_VISIBLE_DEVICES to choose another"
        )
    return device_name


def _gather(
    settings: Reranking, corpus: Corpus | Space, queries: AnyQueries, qrels: Splits, train: str, dev: str
) -> _RerankingData:
    """Check a training's inputs; gather its queries with grades, dev queries and the space to search."""
    if not isinstance(corpus, Corpus | Space):
        raise DataError(f"corpus must be an engine.Corpus or an engine.Space; got {type(corpus).__name__}")
    splits = disjoint_splits(queries, qrels, train, dev)
    if queries.texts is None:
        raise DataError("queries are vectors without their texts, and a cross-encoder reads: pass engine.Queries")
    if settings.retrieve == "dense":
        if not isinstance(corpus, Space):
            raise ParamError(
                "retrieve='dense' needs the corpus's embeddings: pass engine.Space(corpus, engine.embed(corpus))"
            )
        space = corpus
    else:
        # BM25 reads words: a single number stands for a vector that it never looks at.
        text_corpus = corpus.corpus if isinstance(corpus, Space) else corpus
        space = Space(text_corpus, Embeddings(text_corpus.ids, torch.ones(len(text_corpus), 1)), "cpu")
        queries = Embeddings(queries.ids, torch.ones(len(queries), 1), None, queries.texts)
    relevant, judged_rows = relevant_rows(space.corpus, queries, qrels, splits)
    train_queries, dev_queries = take_queries(queries, list(relevant)), take_queries(queries, judged_rows)
    return _RerankingData(space, train_queries, list(relevant.values()), dev_queries, qrels[dev])


def _build_lists(settings: Reranking, data: _RerankingData, generator: torch.Generator, reporter: Reporter) -> Lists:
    """Build (query text, document texts, grades) of each training query, irrelevant documents among them.

    Irrelevant documents are hard negatives, from those that the search before the reranking returns, and random ones.
    """
    first_search = Decoder(make("top_k"), make(settings.retrieve))
    texts = list(map(replace_surrogates, data.space.corpus.passages))
    lists: Lists = []
    report_progress = with_cancellation(*reporter, f"training stopped while {MINING}, at {{done}} of {{total}} queries")
    for start in range(0, len(data.relevant), _QUERY_BLOCK_SIZE):
        report_progress(start, len(data.relevant), MINING)
        block_rows = range(start, min(start + _QUERY_BLOCK_SIZE, len(data.relevant)))
        queries = take_queries(data.train, block_rows)
        returned_rows = decode(first_search, data.space, queries, settings.depth).index.tolist()
        for query_row, query_text, query_returned in zip(block_rows, queries.texts or (), returned_rows, strict=True):
            grades = data.relevant[query_row]
            negatives = _draw_negatives(settings, grades, query_returned, len(texts), generator)
            # The keys of grades are the relevant rows, in the order of the labels.
            documents = [texts[document] for document in (*grades, *negatives)]
            labels = [*map(float, grades.values()), *[0.0] * len(negatives)]
            lists.append((replace_surrogates(query_text), documents, labels))
    return lists


def _draw_negatives(
    settings: Reranking, grades: Mapping[int, int], pool: list[int], documents: int, generator: torch.Generator
) -> list[int]:
    """Draw irrelevant rows for a query: hard ones, from what the first search returned, and random ones.

    grades: row → grade of the relevant documents; pool: the rows that the search before the reranking returned, −1
    where it returned fewer; documents: size of the corpus
    """
    candidates = [row for row in pool if row >= 0 and row not in grades]
    hard = [candidates[i] for i in torch.randperm(len(candidates), generator=generator)[: settings.hard].tolist()]
    # A few more than are needed, as some are relevant or hard already.
    n_drawn = 2 * settings.sampled + len(grades) + len(hard)
    # Without repetitions, in the order drawn.
    drawn_rows = dict.fromkeys(torch.randint(documents, (n_drawn,), generator=generator).tolist())
    sampled = [row for row in drawn_rows if row not in grades and row not in hard]
    return [*hard, *sampled[: settings.sampled]]


@dataclass(frozen=True, eq=False)
class _InMemory(CrossEncoder):
    """A scorer that reranks with a model that is still in training, so that it is on no disk yet."""

    model_in_training: rerankers.CrossEncoderModel | None = None

    def prepare(self, space: Space) -> rerankers.CrossEncoderModel:
        """Return the model in training; a scorer without one loads a file."""
        return self.model_in_training or super().prepare(space)


def _measure_dev(reader: Any, settings: Reranking, data: _RerankingData) -> tuple[float, float, float, float]:
    """Measure nDCG@10 and MRR@10 on dev, where the model reranks what a first search returns.

    Return nDCG, its standard error, MRR, its standard error. reader: the cross-encoder in training
    """
    # The device is named "cpu", wherever the model is, so that it is not moved: it belongs to the trainer.
    rerank = _InMemory(model_in_training=rerankers.CrossEncoderModel(reader, "the one in training", "cpu"))
    decoder = Decoder(make("top_k"), make(settings.retrieve), rerank, settings.depth)
    ranking = decode(decoder, data.space, data.dev, DEV_SET_SIZE)
    by_metric = measure(ranking, data.space, data.dev.ids, data.qrels, DEV_SET_SIZE, ("ndcg", "mrr")).values
    return (*mean_and_error(by_metric["ndcg"]), *mean_and_error(by_metric["mrr"]))


def _save_model(reader: Any, out: Path) -> None:
    """Write the model's files to `out`, each replaced as a whole, the weights last."""
    part_folder = out / ".part"
    with translate_write_errors(out):
        reader.save_pretrained(str(part_folder), create_model_card=False)
        # Weights last: a folder whose weights are new then has the configuration that belongs to them.
        files = sorted(filter(Path.is_file, part_folder.rglob("*")), key=lambda path: path.suffix == ".safetensors")
        for part_file in files:
            target = out / part_file.relative_to(part_folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(part_file, target)
        shutil.rmtree(part_folder)


@contextmanager
def _seed_torch(seed: int) -> Iterator[None]:
    """Seed the global random generators inside, and restore them outside."""
    # The trainer seeds Python's and NumPy's generators too, by itself; a caller's own draws must not notice.
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


def fit(
    reader: Any, lists: Lists, settings: Reranking, seed: int, look: Callable[[float], None], reporter: Reporter
) -> str:
    """Train a cross-encoder in place, silently; return the reason why it ended, in words.

    lists: queries with documents and grades; look: called with each epoch's mean loss, measures dev
    """
    from datasets import Dataset
    from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments
    from transformers import PrinterCallback

    columns, loss, batch_size = _data_and_loss(reader, lists, settings)
    examples = Dataset.from_dict(columns)
    # The trainer's last batch of an epoch may be smaller, so its steps are rounded up.
    n_steps = -(-len(examples) // batch_size)
    n_total_steps = n_steps * settings.epochs
    with tempfile.TemporaryDirectory(prefix="frontier-") as output_folder:
        arguments = CrossEncoderTrainingArguments(
            output_dir=output_folder,
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=batch_size,
            learning_rate=settings.rate,
            weight_decay=settings.weight_decay,
            warmup_steps=round(WARM_UP_SHARE * n_total_steps),
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
        losses: list[float] = []
        report_step = reporter.progress or (lambda done, n_total_steps, label: None)
        trainer_class, callback = _trainer_parts(
            losses, n_steps, look, lambda step: report_step(step, n_total_steps, TRAINING_LABEL), reporter
        )
        trainer = trainer_class(reader, arguments, train_dataset=examples, loss=loss, callbacks=[callback])
        # Without its progress bar the trainer would print its log instead.
        trainer.remove_callback(PrinterCallback)
        report_step(0, n_total_steps, TRAINING_LABEL)
        trainer.train()
    return callback.reason or f"all {settings.epochs} epochs done"


def _data_and_loss(reader: Any, lists: Lists, settings: Reranking) -> tuple[dict[str, list[Any]], torch.nn.Module, int]:
    """Return the columns that the trainer reads, its loss, and the number of rows in one step.

    A row is a query's whole list for the loss "lists", else a pair of query and document.
    """
    from sentence_transformers.cross_encoder import losses

    if settings.loss == "lists":
        mean_length = sum(len(documents) for _, documents, _ in lists) / len(lists)
        queries, documents, grades = map(list, zip(*lists, strict=True))
        # −1: all documents of a step at once.
        loss: torch.nn.Module = losses.LambdaLoss(reader, mini_batch_size=-1)
        batch_size = max(1, round(settings.batch / mean_length))
        return {"query": queries, "documents": documents, "labels": grades}, loss, batch_size
    columns: dict[str, list[Any]] = {"query": [], "document": [], "label": []}
    for query_text, documents, grades in lists:
        columns["query"] += [query_text] * len(documents)
        columns["document"] += documents
        columns["label"] += [float(grade > 0) for grade in grades]
    # Irrelevant pairs outnumber the relevant ones; this factor lets both sides weigh the same in the loss.
    n_relevant = sum(columns["label"])
    pos_weight = torch.tensor((len(columns["label"]) - n_relevant) / n_relevant)
    return columns, losses.BinaryCrossEntropyLoss(reader, pos_weight=pos_weight), settings.batch


def _trainer_parts(
    losses: list[float], n_steps: int, look: Callable[[float], None], report: Callable[[int], None], reporter: Reporter
) -> tuple[type[Any], Any]:
    """Return a trainer class that records losses, and a callback that measures dev and stops training.

    Both extend the library that trains cross-encoders. losses: filled with each step's loss, emptied after an epoch;
    n_steps: in an epoch; look: called with an epoch's mean loss to measure dev; report: called with the number of steps
    done. The callback's `reason` says why the training was stopped, "" if it was not.
    """
    from sentence_transformers.cross_encoder import CrossEncoderTrainer
    from transformers import TrainerCallback

    class RecordingTrainer(CrossEncoderTrainer):
        """The library's trainer, which also records the loss of every step."""

        def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
            """No card: it would ask the hub what it knows of the model."""

        def training_step(self, *args: Any, **more: Any) -> torch.Tensor:
            """Take the library's step, and append its loss to `losses`."""
            loss: torch.Tensor = super().training_step(*args, **more)
            losses.append(float(loss))
            return loss

    class EpochCallback(TrainerCallback):
        """Callback of the trainer: reports steps, measures dev after an epoch, and stops on request."""

        reason = ""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Stop the trainer after a loss that is no number, or on request."""
            epoch = (state.global_step - 1) // n_steps
            # Such a loss has spoilt the weights; the best model of the epochs before it is in the folder.
            if not math.isfinite(losses[-1]):
                self.reason = f"the loss was {losses[-1]} in epoch {epoch}"
            elif reporter.is_stopped:
                self.reason = f"stopped by hand in epoch {epoch}"
            report(state.global_step)
            control.should_training_stop |= bool(self.reason)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Pass the epoch's mean loss to `look`, which measures dev."""
            mean = sum(losses) / max(1, len(losses))
            losses.clear()
            if self.reason:
                return
            try:
                look(mean)
            except Cancelled:
                self.reason = f"stopped by hand after epoch {(state.global_step - 1) // n_steps}"
                control.should_training_stop = True

    return RecordingTrainer, EpochCallback()
