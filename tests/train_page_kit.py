"""The Train view in tests: a small corpus whose queries can be learnt from, and its page."""

import json

from test_pages import screen

from dashboard import state
from dashboard.state import Source
from engine.learning.training.recipes import RECIPES

THINGS = ("apple pie", "steam engine", "violin", "volcano", "tax return", "chess", "heron", "lighthouse")
SORTS = ("history", "price", "repair", "poetry")
METHOD = list(RECIPES)[1]
"""One with an untrained decoder, a start and a control."""
QUICK = {"tune.page": "Train", "train.method": METHOD}
SMALL = {"hidden": 32, "epochs": 3, "batch": 16, "late": ["query_rate"], "query_rate": 1e-2}


def written(folder):
    """The Source of a corpus in this folder: things, and queries that name two others than those they mean."""
    corpus = [{"_id": f"{t[:4]}-{s}", "text": f"On the {s} of the {t}"} for t in THINGS for s in SORTS]
    pairs = [(a, b, s) for a in range(8) for b in range(8) for s in range(4) if a < b and (a + b + s) % 2]
    queries = [{"_id": f"q{i}", "text": f"{THINGS[a]}, {THINGS[b]}: {SORTS[s]}"} for i, (a, b, s) in enumerate(pairs)]
    lines = [f"q{i}\t{THINGS[t - 7][:4]}-{SORTS[s]}\t1\n" for i, (a, b, s) in enumerate(pairs) for t in (a, b)]
    (folder / "qrels").mkdir()
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "qrels" / "test.tsv").write_text("".join(lines))
    return Source(str(folder), dtype="float32")


def page(source, **session):
    given = {f"train.{METHOD}.{name}": value for name, value in SMALL.items()}
    return screen("tune", source, **{**QUICK, **given, **session})


def finished(app, purpose="train"):
    job = app.session_state["jobs"][purpose]
    job.join(120)
    assert not job.running
    app.run()
    assert not app.exception, app.exception
    return app


def table_there(app):
    return any("System" in t.value for t in app.dataframe)


def loaded(source):
    job = state.loading(source)
    job.join(120)
    assert job.error is None, job.error
    return job.result
