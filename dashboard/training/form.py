"""The form of a training: method, parameters, queries."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard.services.source import Loaded
from dashboard.services.training_request import TrainingRequest
from dashboard.session.query import corpus_key, judged_splits
from dashboard.widgets.choices import choose_several, select
from dashboard.widgets.parameters import draw_parameters
from engine.evaluation.splits import SHARES
from engine.training.loop import SEED
from engine.training.recipes import RECIPES, declared
from engine.values import Dataset, replace_surrogates

PREFIX = "train"
SPLITS = 3
"""To learn from, to choose by, to report on."""
ROLES = {
    "train": ("Learn from", ("train", "training")),
    "dev": ("Choose by", ("dev", "validation", "valid", "val")),
    "test": ("Report on", ("test",)),
}
"""Role → its label, and what such splits are called."""
NOTHING = "nothing (the table is of the split above)"


def ask(loaded: Loaded, passages: bool) -> TrainingRequest:
    """Draw the form; passages: whether the queries are passages of the corpus."""
    method = select(
        "Method",
        RECIPES,
        f"{PREFIX}.method",
        # The first one is what the others are compared with.
        default=list(RECIPES)[len(RECIPES) > 1],
        format_func=lambda name: RECIPES[name].title,
        help="\n\n".join(f"{r.title}: {r.__doc__} {r.source}." for r in RECIPES.values()),
    )
    st.caption(f"{RECIPES[method].__doc__} {RECIPES[method].source}.")
    splits = _splits(loaded.dataset, corpus_key(loaded))
    params = _parameters(method)
    seed = _seed("Seed of the training", f"{PREFIX}.seed", SEED.help)
    return TrainingRequest(method=method, params=tuple(params.items()), seed=seed, passages=passages, **splits)


def _splits(dataset: Dataset, key: str) -> dict[str, Any]:
    """Which queries are for what, as a TrainingRequest has them."""
    sizes = judged_splits(dataset)
    names = list(sizes)

    def sized(name: str) -> str:
        return f"{replace_surrogates(name)}: {sizes[name]:,} queries" if name in sizes else name

    shares = ", ".join(f"{share:.0%}" for share in SHARES)
    divide = st.toggle(
        "Divide one split in three",
        len(names) < SPLITS,
        key=f"{PREFIX}.divide.{key}",
        persist_state="session",
        disabled=len(names) < 2,
        help=f"Training needs three splits without a common query. Of one split {shares} of the queries are drawn for "
        "learning, choosing and reporting.",
    )
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
    largest = max(names, key=sizes.__getitem__)
    split = select("Split to divide", names, f"{PREFIX}.of.{key}", default=largest, format_func=sized)
    parting = _seed("Seed of the division", f"{PREFIX}.parting", "Another seed draws other queries.")
    return {"train": "train", "dev": "dev", "test": "test", "divide": split, "parting": parting}


def _seed(label: str, key: str, help_: str) -> int:
    how: Any = {"key": key, "help": help_, "persist_state": "session"}
    return int(st.number_input(label, SEED.low, SEED.high, SEED.default, 1, **how))


def _parameters(method: str) -> dict[str, Any]:
    """Draw the parameters that count; those that the data decide are left out."""
    params = {p.name: p for p in declared(method)}
    late = [name for name in RECIPES[method].late if name in params]
    by_hand: Sequence[str] = ()
    if late:
        by_hand = choose_several(
            "Set by hand",
            late,
            f"{PREFIX}.{method}.late",
            default=[],
            format_func=lambda name: params[name].symbol,
            help="What is not picked is chosen by the data: "
            + "; ".join(f"{params[name].symbol}: {params[name].help}" for name in late),
        )
    shown = [p for p in params.values() if p.name not in late or p.name in by_hand]
    values: dict[str, Any] = {}
    key = f"{PREFIX}.{method}.{{}}".format
    draw_parameters([p for p in shown if not p.advanced], key, values)
    if rest := [p for p in shown if p.advanced]:
        with st.expander("More"):
            draw_parameters(rest, key, values)
    return {name: values[name] for name in params if name in values}
