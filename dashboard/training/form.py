"""The form of a training: method, parameters, queries."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import streamlit as st

from dashboard.charts.figure import read_column
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
N_SPLITS = 3
"""Number of query sets: to learn from, to choose on, to report on."""
ROLES = {
    "train": ("Learn from", ("train", "training")),
    "dev": ("Validate on", ("dev", "validation", "valid", "val")),
    "test": ("Report on", ("test",)),
}
"""Role → its label, and the usual names of such splits."""
NO_SPLIT = "nothing (the table is of the split above)"
COLOURS = list(map(attrgetter("light", "dark"), SERIES))


def draw_form(loaded: Loaded, passages: bool) -> TrainingRequest | None:
    """Draw the form of a training; return its settings, None if no queries are left to learn from.

    loaded: the corpus with the encoder's own embeddings; passages: True if passages of the corpus are the
    queries
    """
    method_column, split_column = st.columns(2)
    method = select(
        "Method",
        RECIPES,
        f"{PREFIX}.method",
        # The second one, if there is one, as the first is what the others are compared with.
        default=list(RECIPES)[1 if len(RECIPES) > 1 else 0],
        container=method_column,
        format_func=lambda name: RECIPES[name].title,
        help="\n\n".join(f"{r.title}: {r.__doc__} {r.source}." for r in RECIPES.values()),
    )
    method_column.caption(f"{RECIPES[method].__doc__} {RECIPES[method].source}.")
    with split_column:
        splits = _draw_splits(loaded.dataset, corpus_key(loaded), passages)
    if splits is None:
        return None
    with st.expander("Advanced"):
        params = _draw_parameters(method)
        seed_columns = st.columns(4)
        with seed_columns[0]:
            seed = _draw_seed("Seed", f"{PREFIX}.seed", SEED.help)
        # One set that is drawn into three parts: its seed decides which query goes where.
        if "divide" in splits:
            with seed_columns[1]:
                splits["parting"] = _draw_seed("Split seed", f"{PREFIX}.parting", "Another seed draws other queries.")
    request = TrainingRequest(method=method, params=tuple(params.items()), seed=seed, passages=passages, **splits)
    with split_column:
        _draw_bar(request, loaded.dataset)
    return request


def _draw_splits(dataset: Dataset, corpus_digest: str, passages: bool) -> dict[str, Any] | None:
    """Draw the choice of queries to train, validate and test on; return these fields of a TrainingRequest.

    None if there are too few sets of queries; "divide" names the one set that is split in three, if any.
    """
    sizes = count_judged(dataset)
    names = list(sizes)

    def format_size(name: str) -> str:
        """Format a set of queries with its size; other options, such as no set, stay as they are."""
        return f"{visible(name)} · {sizes[name]:,} queries" if name in sizes else name

    shares = ", ".join(map(percent, SPLIT_SHARES))
    # Tune reports on the test queries, so training must not learn from them by default.
    _, usual_test_names = ROLES["test"]
    unreported = [name for name in names if passages or name not in usual_test_names]
    # Passages are one set of queries, which has to be split.
    divide = (passages and len(names) < 2) or st.toggle(
        "Split one query set",
        len(names) < N_SPLITS and bool(unreported),
        key=f"{PREFIX}.divide.{corpus_digest}",
        persist_state="session",
        help=f"Training needs three sets that share no query: {shares} of one are drawn to train, validate and test.",
    )
    if not divide and len(names) < 2:
        size = format_size(names[0])
        st.info(f"The only labelled queries are {size}. Turn on the switch to learn from a part of them.")
        return None
    if not divide:
        chosen: dict[str, Any] = {}
        for role, (label, usual) in ROLES.items():
            # A set serves one role only; testing may be left out.
            options = [name for name in names if name not in chosen.values()] + ([NO_SPLIT] if role == "test" else [])
            default = next((name for name in usual if name in options), None)
            # Other earlier choices leave other options: the widget is then another one.
            earlier_choices = ".".join(map(str, chosen.values()))[:60]
            widget_key = f"{PREFIX}.{role}.{corpus_digest}.{len(options)}.{earlier_choices}"
            picked = select(label, options, widget_key, default=default, format_func=format_size)
            chosen[role] = None if picked == NO_SPLIT else picked
        return chosen
    # The largest set leaves the most queries to learn from.
    largest = max(unreported or names, key=sizes.__getitem__)
    split = select("Query set", names, f"{PREFIX}.of.{corpus_digest}", default=largest, format_func=format_size)
    return {"train": "train", "dev": "dev", "test": "test", "divide": split}


def _draw_bar(request: TrainingRequest, dataset: Dataset) -> None:
    """Draw the numbers of queries to train, validate and test on as one bar with three parts."""
    qrels = request.qrels(dataset)
    split_names = {"train": request.train, "validate": request.dev, "test": request.test}
    counts = {role: len(qrels[name]) for role, name in split_names.items() if name is not None}
    if request.divide is not None:
        all_queries = counted(sum(counts.values()), "query", "queries")
        st.caption(f"Random split of {all_queries} (seed {request.parting})")
    parts, labels = "", []
    # Without a test split a colour is left over. `light` and `dark`: the part's colour in each theme.
    for (role, count), (light, dark) in zip(counts.items(), COLOURS, strict=False):
        shape = f"flex: {count} 1 0; min-width: 4.5rem; padding: .15rem .5rem; color: light-dark(#fff, #111)"
        colour = f"background: light-dark({light}, {dark}); white-space: nowrap"
        labels.append(f"{role} {count:,}")
        parts += f'<div style="{shape}; {colour}">{labels[-1]}</div>'
    label = ", ".join(labels)
    style = "display: flex; gap: 2px; border-radius: .4rem; overflow: hidden; font-size: .85rem"
    st.html(f'<div role="img" aria-label="{label}" style="{style}">{parts}</div>')


def _draw_seed(label: str, widget_key: str, help_text: str) -> int:
    """Draw the field for a seed of randomness; return it."""
    options: Any = {"key": widget_key, "help": help_text, "persist_state": "session"}
    return int(st.number_input(label, SEED.low, SEED.high, SEED.default, 1, **options))


def _draw_parameters(method: str) -> dict[str, Any]:
    """Draw a training method's parameters; return name → value, without those that the data are to choose.

    "Late" parameters are chosen on the validation queries, unless a person overrides them here.
    """
    declared = declared_params(method)
    params = dict(zip(read_column(declared, "name"), declared, strict=True))
    late_names = [name for name in RECIPES[method].late if name in params]
    overridden: Sequence[str] = ()
    if late_names:
        late_help = "; ".join(f"{params[name].symbol}: {params[name].help}" for name in late_names)
        overridden = choose_several(
            "Override defaults",
            late_names,
            f"{PREFIX}.{method}.late",
            default=[],
            format_func=lambda name: params[name].symbol,
            help=f"Chosen by the data unless overridden: {late_help}",
        )
    visible_params = [param for param in params.values() if param.name not in late_names or param.name in overridden]
    values: dict[str, Any] = {}
    get_widget_key = f"{PREFIX}.{method}.{{}}".format
    columns = st.columns(4)
    for number, param in enumerate(order_params(visible_params)):
        with columns[number % len(columns)]:
            draw_parameters([param], get_widget_key, values)
    return {name: values[name] for name in params if name in values}
