"""A cross-encoder fine-tuned to rerank: Nogueira & Cho 2019; Luan et al. 2021, §4.1.

It learns from relevant documents, from irrelevant ones that the first stage takes for relevant, and from some at
random. The steps are those of sentence-transformers' own trainer; what counts is dev, reranked as a decoder reranks.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.data import models, rerankers
from engine.data.cache import explained
from engine.decoder import Decoder, decode
from engine.errors import Cancelled, DataError, ParamError
from engine.evaluation.metrics import measure
from engine.learning.training.loop import generator_of
from engine.learning.training.recipes import BATCH, DECAY
from engine.learning.training.samples import apart, repeated
from engine.learning.training.trainer import Lists, fit, needs, seeded
from engine.params import Choice, Real, Whole, checked, declare, params_of, values_of
from engine.progress import Progress, Stop, watched
from engine.scoring.cross_encoder import CrossEncoder
from engine.space import Space
from engine.stages import make
from engine.values import Corpus, Embeddings, Qrels, Queries, showable

SEED = Whole(default=0, low=0, high=2**31 - 1, symbol="seed", name="seed", help="Same seed, same weights.")
MINING, MEASURING = "looking for what is mistaken for relevant", "reranking dev"
K = 10
"""Dev is measured at so many documents."""
SAID = "training.json"
_BLOCK = 256


@dataclass(frozen=True)
class Reranking:
    """A cross-encoder that reranks what a first stage retrieves."""

    loss: str = declare(
        Choice(
            default="pairs",
            options=("pairs", "lists"),
            symbol="loss",
            help="pairs: binary cross-entropy of a document. lists: LambdaLoss of a query's documents by grades.",
        )
    )
    retrieve: str = declare(
        Choice(
            default="bm25",
            options=("bm25", "dense"),
            symbol="retrieve",
            help="The first stage: what it returns is reranked on dev, and holds the hard negatives.",
        )
    )
    depth: int = declare(
        Whole(default=50, low=1, high=10_000, comfortable=(10, 200), symbol="n", help="How many documents it returns.")
    )
    hard: int = declare(
        Whole(
            default=4,
            low=0,
            high=10_000,
            comfortable=(0, 16),
            symbol="hard",
            help="Irrelevant documents a query, of those that the first stage returns.",
        )
    )
    sampled: int = declare(
        Whole(
            default=4,
            low=0,
            high=10_000,
            comfortable=(0, 16),
            symbol="sampled",
            help="Irrelevant documents a query, of the whole corpus.",
        )
    )
    rate: float = declare(
        Real(default=2e-5, low=0.0, high=1.0, comfortable=(1e-6, 1e-3), scale="log", symbol="η", help="Step size.")
    )
    epochs: int = declare(
        Whole(default=3, low=1, high=10_000, comfortable=(1, 10), symbol="epochs", help="Passes over the queries.")
    )
    batch: int = declare(
        replace(BATCH, default=32, help="Pairs a step; of lists, as many as hold about so many pairs.")
    )
    weight_decay: float = declare(DECAY)

    def __post_init__(self) -> None:
        for param in params_of(self):
            object.__setattr__(self, param.name, param.check(getattr(self, param.name)))
        if self.hard == self.sampled == 0:
            raise ParamError("hard and sampled are both 0: there is nothing to tell relevant documents from")


@dataclass(frozen=True, slots=True)
class Look:
    """Dev after an epoch, −1 before the first: nDCG@10 and MRR@10 with the standard errors of their means; loss: mean
    over the steps, None before the first."""

    epoch: int
    ndcg: float
    ndcg_se: float
    mrr: float
    mrr_se: float
    loss: float | None = None


def train_cross_encoder(
    model: str,
    corpus: Corpus | Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
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
    """Fine-tune a cross-encoder, and write the best of it by nDCG@10 on dev as a folder, for the scorer cross_encoder.

    model: a folder or a name on the Hugging Face hub, as the scorer takes them; a model that has no head for relevance
    gets a new one. corpus: a Space for retrieve="dense", else its texts are enough; queries: with their texts; qrels:
    judgements by split; out: a new or an empty folder, which gets the model and training.json, the history; device:
    "cpu", or None for a GPU if there is one; watch: gets a Look before the first epoch and after each; progress counts
    steps; stop: asked between steps, and what was best by then stands; params: as `Reranking` declares them. A query
    of train that has the text of one of dev is left out. Raises ParamError; DataError where data do not fit or splits
    share queries; Cancelled where it is stopped before dev was first measured; FrontierError without the extra `train`,
    or where the model cannot be loaded.
    """
    needs()
    seed = SEED.check(seed)
    settings = Reranking(**checked(params_of(Reranking), params, "training a cross-encoder"))
    device = _device(device)
    space, asked, known, relevant = _gathered(settings, corpus, queries, qrels, train, dev)
    out = Path(out)
    with explained(out):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise DataError(f"out must be a new or an empty folder; there is something in {out}")
    lists = _lists(settings, space, asked, relevant, generator_of(seed, -1), progress, stop)
    # Without its head a model is drawn in part, and dropout is drawn in every step.
    with seeded(seed), models.quiet():
        reader = rerankers.unshared(model, device)
        return _fitted(reader, settings, lists, space, known, qrels[dev], out, model, seed, watch, progress, stop)


def _fitted(
    reader: Any,
    settings: Reranking,
    lists: Lists,
    space: Space,
    known: Queries | Embeddings,
    qrels: Qrels,
    out: Path,
    name: str,
    seed: int,
    watch: Callable[[Look], None] | None,
    progress: Progress | None,
    stop: Stop | None,
) -> Path:
    history: list[Look] = []
    best = -1

    def said(stopped: str) -> None:
        rows = [asdict(look) for look in history]
        told = {"model": name, "settings": values_of(settings), "seed": seed, "history": rows}
        text = json.dumps({**told, "best": best, "stopped": stopped}, ensure_ascii=False, indent=1)
        with explained(out):
            (out / SAID).write_text(text + "\n", encoding="utf-8")

    def look(loss: float | None = None) -> None:
        nonlocal best
        with watched(None if progress is None else lambda d, t, _: progress(d, t, MEASURING), stop):
            found = Look(len(history) - 1, *_measured(reader, settings, space, known, qrels), loss)
        history.append(found)
        if len(history) == 1 or found.ndcg > history[best + 1].ndcg:
            best = found.epoch
            _kept(reader, out)
        said("")
        if watch is not None:
            watch(found)

    look()
    said(fit(reader, lists, settings, seed, look, progress, stop))
    return out


def _device(device: str | None) -> str:
    found = models.device_of(device)
    if found not in ("cpu", "cuda", "cuda:0"):
        raise ParamError(
            f"device must be 'cpu', 'cuda' or None for a GPU if there is one, as the trainer takes the first GPU "
            f"that it sees; got {device!r}: set CUDA_VISIBLE_DEVICES to choose another"
        )
    return found


def _gathered(
    settings: Reranking,
    corpus: Corpus | Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
    train: str,
    dev: str,
) -> tuple[Space, Queries | Embeddings, Queries | Embeddings, list[dict[int, int]]]:
    """What is searched, the queries of train with their relevant rows and grades, and those of dev."""
    if not isinstance(corpus, Corpus | Space):
        raise DataError(f"corpus must be an engine.Corpus or an engine.Space; got {type(corpus).__name__}")
    splits = apart(queries, qrels, train, dev)
    if queries.texts is None:
        raise DataError("queries are vectors without their texts, and a cross-encoder reads: pass engine.Queries")
    if settings.retrieve == "dense":
        if not isinstance(corpus, Space):
            raise ParamError(
                "retrieve='dense' needs the corpus's embeddings: pass engine.Space(corpus, engine.embed(corpus))"
            )
        space = corpus
    else:
        # This first stage reads words: one number stands for a vector that nobody looks at.
        texts = corpus.corpus if isinstance(corpus, Space) else corpus
        space = Space(texts, Embeddings(torch.ones(len(texts), 1), texts.ids), "cpu")
        queries = Embeddings(torch.ones(len(queries), 1), queries.ids, None, queries.texts)
    position, again = space.corpus.position, repeated(queries, splits, train)
    rows, relevant = [], []
    for row in (row for row in splits[train] if row not in again):
        grades = qrels[train].grades[queries.ids[row]]
        found = {position[doc]: grades[doc] for doc in qrels[train].relevant(queries.ids[row]) if doc in position}
        if found:
            rows.append(row)
            relevant.append(dict(sorted(found.items())))
    if not rows:
        raise DataError(f"no query of {train!r} has a relevant document in this corpus: there is nothing to learn from")
    known = [row for row in splits[dev] if qrels[dev].relevant(queries.ids[row])]
    if not any(doc in position for row in known for doc in qrels[dev].relevant(queries.ids[row])):
        raise DataError(f"no query of {dev!r} has a relevant document in this corpus: there is nothing to choose by")
    return space, _taken(queries, rows), _taken(queries, known), relevant


def _taken(queries: Queries | Embeddings, rows: list[int]) -> Queries | Embeddings:
    if isinstance(queries, Embeddings):
        return queries.take(rows)
    return Queries(tuple(queries.ids[row] for row in rows), tuple(queries.texts[row] for row in rows))


def _lists(
    settings: Reranking,
    space: Space,
    asked: Queries | Embeddings,
    relevant: list[dict[int, int]],
    generator: torch.Generator,
    progress: Progress | None,
    stop: Stop | None,
) -> Lists:
    """Per query its text, its documents' texts and their grades: relevant ones, hard negatives, sampled ones."""
    first = Decoder(make("top_k"), make(settings.retrieve))
    texts = [showable(text) for text in space.corpus.passages]
    found: Lists = []
    for start in range(0, len(relevant), _BLOCK):
        if stop is not None and stop.is_set():
            raise Cancelled(f"training stopped while {MINING}, at {start:,} of {len(relevant):,} queries")
        if progress is not None:
            progress(start, len(relevant), MINING)
        block = list(range(start, min(start + _BLOCK, len(relevant))))
        some = _taken(asked, block)
        pools = decode(first, space, some, settings.depth).index.tolist()
        for row, text, pool in zip(block, some.texts, pools, strict=True):
            own = relevant[row]
            near = [at for at in pool if at >= 0 and at not in own]
            chosen = [near[i] for i in torch.randperm(len(near), generator=generator)[: settings.hard].tolist()]
            # A few more than are wanted, as some will be there already.
            more = 2 * settings.sampled + len(own) + len(chosen)
            drawn = torch.randint(len(texts), (more,), generator=generator).tolist()
            rest = [at for at in dict.fromkeys(drawn) if at not in own and at not in chosen][: settings.sampled]
            negatives = [*chosen, *rest]
            documents = [texts[at] for at in (*own, *negatives)]
            found.append((showable(text), documents, [*map(float, own.values()), *[0.0] * len(negatives)]))
    return found


@dataclass(frozen=True, eq=False)
class _Learning(CrossEncoder):
    """The scorer with a model that is not on the disk yet."""

    now: rerankers.Reranker | None = None

    def reader(self, space: Space) -> rerankers.Reranker:
        return self.now


def _measured(
    reader: Any, settings: Reranking, space: Space, known: Queries | Embeddings, qrels: Qrels
) -> tuple[float, float, float, float]:
    """nDCG@10 and MRR@10 of the reranked first stage, each with its standard error."""
    rerank = _Learning(now=rerankers.Reranker(reader, "the one in training"))
    decoder = Decoder(make("top_k"), make(settings.retrieve), rerank, settings.depth)
    values = measure(decode(decoder, space, known, K), space, known.ids, qrels, K, ("ndcg", "mrr")).values
    numbers = []
    for name in ("ndcg", "mrr"):
        column = values[name][np.isfinite(values[name])]
        error = float(column.std(ddof=1) / math.sqrt(len(column))) if len(column) > 1 else 0.0
        numbers += [float(column.mean()), error]
    return tuple(numbers)


def _kept(reader: Any, out: Path) -> None:
    """Write the model, each file whole or not at all, the weights last."""
    part = out / ".part"
    with explained(out):
        reader.save_pretrained(str(part), create_model_card=False)
        files = sorted((p for p in part.rglob("*") if p.is_file()), key=lambda p: p.suffix == ".safetensors")
        for file in files:
            there = out / file.relative_to(part)
            there.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, there)
        shutil.rmtree(part)
