"""The form of a training: method, parameters, queries."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard.charts.palette import SERIES
from dashboard.services.source import Loaded
from dashboard.services.training_request import TrainingRequest
from dashboard.session.parameters import order_params
from dashboard.session.query import corpus_key, count_judged
from dashboard.widgets.choices import choose_several, select
from dashboard.widgets.parameters import draw_parameters
from engine.evaluation.splits import SPLIT_SHARES
from engine.progress import counted
from engine.training.loop import SEED
from engine.training.recipes import RECIPES, declared_params
from engine.values import Dataset
from engine.wording import percent, visible

PREFIX = "train"
SPLITS = 3
"""To learn from, to choose by, to report on."""
ROLES = {
    "train": ("Learn from", ("train", "training")),
    "dev": ("Validate on", ("dev", "validation", "valid", "val")),
    "test": ("Report on", ("test",)),
}
"""Role → its label, and what such splits are called."""
NOTHING = "nothing (the table is of the split above)"
COLOURS = [(style.light, style.dark) for style in SERIES]


def ask(loaded: Loaded, passages: bool) -> TrainingRequest | None:
    """Draw the form; None while nothing may be learnt from. passages: whether the queries are those of the corpus."""
    left, right = st.columns(2)
    method = select(
        "Method",
        RECIPES,
        f"{PREFIX}.method",
        # The first one is what the others are compared with.
        default=list(RECIPES)[len(RECIPES) > 1],
        container=left,
        format_func=lambda name: RECIPES[name].title,
        help="\n\n".join(f"{r.title}: {r.__doc__} {r.source}." for r in RECIPES.values()),
    )
    left.caption(f"{RECIPES[method].__doc__} {RECIPES[method].source}.")
    with right:
        splits = _splits(loaded.dataset, corpus_key(loaded), passages)
    if splits is None:
        return None
    with st.expander("Advanced"):
        params = _parameters(method)
        places = st.columns(4)
        with places[0]:
            seed = _seed("Seed", f"{PREFIX}.seed", SEED.help)
        if "divide" in splits:
            with places[1]:
                splits["parting"] = _seed("Split seed", f"{PREFIX}.parting", "Another seed draws other queries.")
    request = TrainingRequest(method=method, params=tuple(params.items()), seed=seed, passages=passages, **splits)
    with right:
        _bar(request, loaded.dataset)
    return request


def _splits(dataset: Dataset, key: str, passages: bool) -> dict[str, Any] | None:
    """Which queries are for what, as a TrainingRequest has them; None where all are for reports, and none was given."""
    sizes = count_judged(dataset)
    names = list(sizes)

    def sized(name: str) -> str:
        return f"{visible(name)} · {sizes[name]:,} queries" if name in sizes else name

    shares = ", ".join(percent(share) for share in SPLIT_SHARES)
    # What Tune reports on should not have been learnt from.
    unreported = [name for name in names if passages or name not in ROLES["test"][1]]
    divide = (passages and len(names) < 2) or st.toggle(
        "Split one query set",
        len(names) < SPLITS and bool(unreported),
        key=f"{PREFIX}.divide.{key}",
        persist_state="session",
        help=f"Training needs three sets that share no query: {shares} of one are drawn to train, validate and test.",
    )
    if not divide and len(names) < 2:
        st.info(f"The only judged queries are {sized(names[0])}. Turn on the switch to learn from a part of them.")
        return None
    if not divide:
        chosen: dict[str, Any] = {}
        for role, (label, usual) in ROLES.items():
            rest = [name for name in names if name not in chosen.values()] + ([NOTHING] if role == "test" else [])
            first = next((name for name in usual if name in rest), None)
            before = ".".join(map(str, chosen.values()))[:60]
            own_key = f"{PREFIX}.{role}.{key}.{len(rest)}.{before}"
            picked = select(label, rest, own_key, default=first, format_func=sized)
            chosen[role] = None if picked == NOTHING else picked
        return chosen
    largest = max(unreported or names, key=sizes.__getitem__)
    split = select("Query set", names, f"{PREFIX}.of.{key}", default=largest, format_func=sized)
    return {"train": "train", "dev": "dev", "test": "test", "divide": split}


def _bar(request: TrainingRequest, dataset: Dataset) -> None:
    """The parts of the queries as one bar, each as long as its share."""
    qrels = request.qrels(dataset)
    names = {"train": request.train, "validate": request.dev, "test": request.test}
    counts = {role: len(qrels[name]) for role, name in names.items() if name is not None}
    if request.divide is not None:
        whole = counted(sum(counts.values()), "query", "queries")
        st.caption(f"Random split of {whole} (seed {request.parting})")
    parts = "".join(
        f'<div style="flex: {count} 1 0; min-width: 4.5rem; padding: .15rem .5rem; color: light-dark(#fff, #111); '
        f'background: light-dark({light}, {dark}); white-space: nowrap">{role} {count:,}</div>'
        for (role, count), (light, dark) in zip(counts.items(), COLOURS, strict=False)
    )
    label = ", ".join(f"{role} {count:,}" for role, count in counts.items())
    style = "display: flex; gap: 2px; border-radius: .4rem; overflow: hidden; font-size: .85rem"
    st.html(f'<div role="img" aria-label="{label}" style="{style}">{parts}</div>')


def _seed(label: str, key: str, help_: str) -> int:
    how: Any = {"key": key, "help": help_, "persist_state": "session"}
    return int(st.number_input(label, SEED.low, SEED.high, SEED.default, 1, **how))


def _parameters(method: str) -> dict[str, Any]:
    """Draw the parameters that count; those that the data decide are left out."""
    params = {p.name: p for p in declared_params(method)}
    late = [name for name in RECIPES[method].late if name in params]
    by_hand: Sequence[str] = ()
    if late:
        by_hand = choose_several(
            "Override defaults",
            late,
            f"{PREFIX}.{method}.late",
            default=[],
            format_func=lambda name: params[name].symbol,
            help="Chosen by the data unless overridden: "
            + "; ".join(f"{params[name].symbol}: {params[name].help}" for name in late),
        )
    shown = [p for p in params.values() if p.name not in late or p.name in by_hand]
    values: dict[str, Any] = {}
    key = f"{PREFIX}.{method}.{{}}".format
    columns = st.columns(4)
    for number, param in enumerate(order_params(shown)):
        with columns[number % len(columns)]:
            draw_parameters([param], key, values)
    return {name: values[name] for name in params if name in values}
