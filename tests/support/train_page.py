"""The Train view in tests: a small corpus whose queries can be learnt from, and its page."""

from dashboard.services.source import Source
from dashboard.session.query import corpus_key
from engine.training.recipes import RECIPES
from support.pages import beir, load, screen

THINGS = ("apple pie", "steam engine", "violin", "volcano", "tax return", "chess", "heron", "lighthouse")
SORTS = ("history", "price", "repair", "poetry")
METHOD = list(RECIPES)[1]
"""A recipe with an untrained decoder, a start and a control."""
QUICK = {"tune.page": "Train", "train.method": METHOD}
SMALL = {"hidden": 32, "epochs": 3, "batch": 16, "late": ["query_rate"], "query_rate": 1e-2}


def write_source(folder):
    """Write a corpus of things and return its Source; each query names two things and means two others."""
    corpus = [(f"{thing[:4]}-{sort}", f"On the {sort} of the {thing}") for thing in THINGS for sort in SORTS]
    pairs = [(a, b, s) for a in range(8) for b in range(8) for s in range(4) if a < b and (a + b + s) % 2]
    queries = [(f"q{i}", f"{THINGS[a]}, {THINGS[b]}: {SORTS[s]}") for i, (a, b, s) in enumerate(pairs)]
    relevant = [(f"q{i}", f"{THINGS[t - 7][:4]}-{SORTS[s]}") for i, (a, b, s) in enumerate(pairs) for t in (a, b)]
    return Source(str(beir(folder, corpus, queries, test=relevant)), dtype="float32")


def divide_key(source):
    """Return the key of the switch that divides the corpus's only split for training."""
    return f"train.divide.{corpus_key(load(source))}"


def page(source, **session):
    session_values = {f"train.{METHOD}.{name}": value for name, value in SMALL.items()} | {divide_key(source): True}
    return screen("tune", source, **{**QUICK, **session_values, **session})
