"""One query's sets for the browser, and where it asks for those at every position of a parameter's slider."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from dashboard.charts.palette import style_of
from dashboard.components import vendor
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.answers import answer_key, query_of, scores_of
from dashboard.session.query import Question
from engine.decoder import Decoder, ScoredCandidates, scored
from engine.errors import DataError
from engine.params import Real, Whole, values_of
from engine.reach import Reach
from engine.values import Embeddings, digest_of
from engine.views import slider

LARGE, FIRST = 2048, 0.5
"""Documents from which on a slider's answers come in two parts, and where the first part of a path begins."""
MOST, POOL = 200_000, 500
"""Documents up to which a slider is drawn from all of them, and from how many of the most relevant it is beyond."""


def query_key(loaded: Loaded, question: Question) -> str:
    """Names a query on its corpus: views that draw the same query follow each other."""
    return digest_of([loaded.key, question.id, question.text, str(question.k)])[:16]


def relevant_to(question: Question) -> frozenset[str]:
    """The ids of the documents that are judged relevant."""
    return frozenset(question.qrels.relevant(question.id)) if question.qrels is not None else frozenset()


def look_of(name: str, title: str) -> dict[str, str]:
    """A decoder's names, sign and colours."""
    style = style_of(name)
    return {"name": name, "title": title, "sign": style.sign, "light": style.light, "dark": style.dark}


def stops_of(decoder: Decoder, form: Real | Whole) -> tuple[dict[str, Any], bool]:
    """The positions of a parameter's slider, and whether a path has the answers between them too."""
    stage = decoder.select
    exact = stage.no_path is None and form.name == stage.path_parameter
    return slider.stops(form, getattr(stage, form.name), exact), exact


def addresses(loaded: Loaded, question: Question, decoder: Decoder, form: Real | Whole, **more: Any) -> list[str]:
    """Addresses of a slider's answers, of a part of them first where all take long.

    form: the parameter, as its slider shows it; more: `relevant` and `scores` of `engine.views.slider.packed`
    """
    stage, (given, exact) = decoder.select, stops_of(decoder, form)
    anywhere = type(stage)(**values_of(stage) | {form.name: form.default})
    along = Decoder(anywhere, decoder.retrieve, decoder.rerank, decoder.depth)
    key = [*map(str, answer_key(loaded, question, along)), form.name]
    parts = [(given, 0.0)]
    if LARGE < loaded.size <= MOST and loaded.reach is None:
        parts.insert(0, (given, FIRST) if exact else (slider.coarser(given), 0.0))
    return [
        vendor.offer(digest_of([*key, repr(part)]), _maker(loaded, question, decoder, form, part, more))
        for part in parts
    ]


def _maker(
    loaded: Loaded,
    question: Question,
    decoder: Decoder,
    form: Real | Whole,
    part: tuple[dict[str, Any], float],
    more: dict[str, Any],
) -> Callable[[], dict[str, Any]]:
    """What computes a slider's answers when the browser asks; it keeps no corpus alive."""
    query, k = query_of(loaded, question), question.k
    if loaded.reach is not None:
        return _maker_of_pool(loaded.reach, query, k, decoder, form, part, more)
    within = loaded.size > MOST and decoder.depth is None
    if within:
        decoder = Decoder(decoder.select, decoder.retrieve, decoder.rerank, max(POOL, 2 * k))
    space = weakref.ref(loaded.space)
    known: weakref.ref[ScoredCandidates] | None = None
    if not decoders.has_default_scorers(decoder):
        known = weakref.ref(scores_of(loaded, question, decoder)[0])

    def make() -> dict[str, Any]:
        where = space()
        found = None if where is None else scored(decoder, where, query) if known is None else known()
        if where is None or found is None:
            raise DataError("what this slider shows is no longer in memory; move it to have it computed again")
        given, above = part
        answers = slider.slider_answers(decoder.select, form, given, found, k, above)
        rankings = answers.pop("rankings")
        if within:
            answers["within"] = f"from the top {decoder.depth:,}"
        return {**answers, "stops": given, **slider.packed(where, query.vectors[0], rankings, **more)}

    return make


def _maker_of_pool(
    reach: Reach,
    query: Embeddings,
    k: int,
    decoder: Decoder,
    form: Real | Whole,
    part: tuple[dict[str, Any], float],
    more: dict[str, Any],
) -> Callable[[], dict[str, Any]]:
    """What computes a slider's answers from the documents that a vector engine returns first; letting go asks it."""

    def make() -> dict[str, Any]:
        pool, rows = reach.pool(query)
        given, above = part
        answers = slider.slider_answers(decoder.select, form, given, scored(decoder, pool, query), k, above)
        local = answers.pop("rankings")
        rankings = np.where(local < 0, -1, np.array(rows)[local])
        answers["within"] = f"from the top {len(pool):,}"
        return {**answers, "stops": given, **slider.packed(reach.space, query.vectors[0], rankings, **more)}

    return make
