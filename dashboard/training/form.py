"""The form: which method with which parameters, learnt from which queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard.controls import control
from dashboard.state import Loaded
from dashboard.training.request import Request
from engine.evaluation.splits import SHARES
from engine.learning.training.recipes import RECIPES, declared
from engine.learning.training.run import SEED
from engine.params import Param, form_of
from engine.values import Dataset, showable

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


def ask(loaded: Loaded, made: bool) -> Request:
    """Draw the form; made: the queries are passages of the corpus."""
    method = st.selectbox(
        "Method",
        list(RECIPES),
        # The first one is what the others are compared with.
        int(len(RECIPES) > 1),
        key=f"{PREFIX}.method",
        persist_state="session",
        format_func=lambda name: RECIPES[name].title,
        help="\n\n".join(f"{r.title}: {r.__doc__} {r.source}." for r in RECIPES.values()),
    )
    st.caption(f"{RECIPES[method].__doc__} {RECIPES[method].source}.")
    splits = _splits(loaded.dataset, loaded.space.corpus.digest[:12])
    params = _parameters(method)
    seed = _seed("Seed of the training", f"{PREFIX}.seed", SEED.help)
    return Request(method=method, params=tuple(params.items()), seed=seed, passages=made, **splits)


def _splits(dataset: Dataset, key: str) -> dict[str, Any]:
    """Which queries are for what, as a Request has them."""
    names = [name for name in dataset.qrels if len(dataset.judged(name))]
    sizes = {name: len(dataset.judged(name)) for name in names}
    few = len(names) < SPLITS
    divide = st.toggle(
        "Divide one split in three",
        few,
        key=f"{PREFIX}.divide.{key}",
        persist_state="session",
        disabled=len(names) < 2,
        help="Training needs three splits without a common query. Of one split "
        + ", ".join(f"{share:.0%}" for share in SHARES)
        + " of the queries are drawn for learning, choosing and reporting.",
    )
    if not divide:
        chosen: dict[str, Any] = {}
        for role, (label, usual) in ROLES.items():
            rest = [name for name in names if name not in chosen.values()] + ([NOTHING] if role == "test" else [])
            first = next((rest.index(name) for name in usual if name in rest), 0)
            picked = st.selectbox(
                label,
                rest,
                first,
                key=f"{PREFIX}.{role}.{key}.{len(rest)}.{'.'.join(map(str, chosen.values()))[:60]}",
                persist_state="session",
                format_func=lambda name: f"{showable(name)}: {sizes[name]:,} queries" if name in sizes else name,
            )
            chosen[role] = None if picked == NOTHING else picked
        return chosen
    largest = max(names, key=sizes.__getitem__)
    of = st.selectbox(
        "Split to divide",
        names,
        names.index(largest),
        key=f"{PREFIX}.of.{key}",
        persist_state="session",
        format_func=lambda name: f"{showable(name)}: {sizes[name]:,} queries",
    )
    parting = _seed("Seed of the division", f"{PREFIX}.parting", "Another seed draws other queries.")
    return {"train": "train", "dev": "dev", "test": "test", "divide": of, "parting": parting}


def _seed(label: str, key: str, help_: str) -> int:
    return int(
        st.number_input(label, SEED.low, SEED.high, SEED.default, 1, key=key, help=help_, persist_state="session")
    )


def _parameters(method: str) -> dict[str, Any]:
    """The values of the parameters that count, without those that the data decide."""
    known = {p.name: p for p in declared(method)}
    late = [name for name in RECIPES[method].late if name in known]
    by_hand: Sequence[str] = ()
    if late:
        by_hand = st.pills(
            "Set by hand",
            late,
            selection_mode="multi",
            key=f"{PREFIX}.{method}.late",
            persist_state="session",
            format_func=lambda name: known[name].symbol,
            help="What is not picked is chosen by the data: "
            + "; ".join(f"{known[name].symbol}: {known[name].help}" for name in late),
        )
    shown = [p for p in known.values() if p.name not in late or p.name in by_hand]
    values: dict[str, Any] = {}
    _draw([p for p in shown if not p.advanced], method, values)
    if rest := [p for p in shown if p.advanced]:
        with st.expander("More"):
            _draw(rest, method, values)
    return {name: values[name] for name in known if name in values}


def _draw(params: Sequence[Param], method: str, values: dict[str, Any]) -> None:
    # What others hang on comes first.
    for param in sorted(params, key=lambda p: (p.needs is not None, bool(p.forms))):
        if param.needs is None or values.get(param.needs[0]) == param.needs[1]:
            shape, form = form_of(param, values)
            values[param.name] = control(form, ".".join(filter(None, [f"{PREFIX}.{method}.{param.name}", shape])))
