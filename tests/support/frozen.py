"""What the frozen tests compare: the names that the program has now, and pages as a session sees them."""

import ast
import inspect
import json
import re

import click

import engine
from engine import orag

# --- All that these tests take from within: whatever moves is changed here and nowhere else. ---
from dashboard.serve import main as frontier  # isort: skip
from dashboard.services.source import Source  # isort: skip
from dashboard.session.restore import parse_link as read_link  # noqa: F401  # isort: skip
from dashboard.sharing import snapshots  # isort: skip
from dashboard.sharing.dialogs import EXPORT, LINK, VIEWS  # isort: skip
from support.paths import ROOT  # isort: skip
from support import pages  # isort: skip
# ---

FROZEN = ROOT / "tests" / "frozen"
STRINGS = json.loads((FROZEN / "strings.json").read_bytes())
CORPUS = Source("tests/frozen/corpus", dtype="float32")
"""Relative, as the tests run in the root of the checkout."""


def judged(world, *splits):
    """The vectors of the queries that splits judge."""
    dataset, _, queries = world
    return queries.take([dataset.queries.position[query] for s in splits for query in dataset.judged(s).ids])


def live(world):
    """Have a home something to show: votes with a moment of theirs, a saved view, and a training that ended."""
    dataset, space, queries = world
    log = orag.log(orag.place(space), space)
    for row in range(3):
        log.snapshot(f"before {row}")
        log.feed(orag.thumb(log.session, queries.take([row]), dataset.corpus.ids[row]))
    log.undo(log.session.history[1].id)
    answer = snapshots.SavedAnswer("MMR", "mmr", ((dataset.corpus.ids[0], ""),), {"ILAD@1": None}, "MMR")
    known = {"corpus": "c", "digest": "d", "vectors": "v", "encoder": "bundled", "query": "q"}
    snapshots.save(snapshots.make_snapshot("a view", state={"v": "1", "k": "3"}, answers={"mmr": answer}, **known))
    small = {f"train.dense.{name}": value for name, value in {"hidden": 2, "epochs": 1, "batch": 8}.items()}
    pages.ended(pages.press(page("tune", **{"tune.page": "Train", "train.method": "dense"}, **small), "train.start"))


def public(value):
    """The public names of a value."""
    return sorted(name for name in dir(value) if not name.startswith("_"))


def parameters(value):
    """The names of a callable's parameters, in order; none of anything else."""
    try:
        return list(inspect.signature(value).parameters) if callable(value) else []
    except ValueError:  # a class that is an exception
        return []


def returned(module):
    """The public names of the classes that a façade's functions say they return, by function."""
    kinds = {}
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value):
            kind = inspect.signature(value, eval_str=True).return_annotation
            if inspect.isclass(kind) and kind.__module__.partition(".")[0] == "engine":
                kinds[name] = {*public(kind), *getattr(kind, "__dataclass_fields__", {})}
    return {name: sorted(n for n in own if not n.startswith("_")) for name, own in kinds.items()}


def objects(world, folder):
    """The public names of values that a façade gives, by what it is called there."""
    dataset, space, _ = world
    dev, qrels, both = judged(world, "dev"), dataset.qrels["dev"], judged(world, "dev", "test")
    decoder = engine.Decoder(engine.make("mmr"))
    ranking = engine.decode(decoder, space, dev, 5)
    decoders = [*engine.grid("top_k"), *engine.grid("mmr", 3)]
    points = list(engine.sweep(decoders, space, dev, qrels, 5, split="dev"))
    log = orag.log(folder / "log.sqlite", space)
    session = log.feed(orag.thumb(log.session, dev.take([0]), dataset.corpus.ids[0]))
    event = session.history[0]
    checkpoint = folder / "dense.safetensors"
    engine.train("dense", space, world[2], dataset.qrels, hidden=2, epochs=1, batch=8, checkpoint=checkpoint)
    trained = engine.load_trained(checkpoint, space)
    values = {
        "corpus": dataset.corpus, "queries": dataset.queries, "qrels": qrels, "dataset": dataset, "decoder": decoder,
        "embeddings": space.embeddings, "encoder": space.encoder, "space": space, "ranking": ranking, "log": log,
        "measures": engine.measure(ranking, space, dev, qrels, 5, ["recall"]), "point": points[0],
        "frontier": engine.frontier(points, k=5), "comparison": engine.compare(points, "recall", "top_k", 5)[0],
        "tuned": engine.tune("mmr", space, both, dataset.qrels, k=5, points=3),
        "objective": engine.Objective(), "session": session,
        "event": event, "query": event.query, "preset": orag.PRESETS["careful"],
        "draw": orag.ask(session, dev.take([0])), "diff": orag.diff(orag.at(session, 0), session),
        "layout": engine.layout(space, "pca"), "trained": trained,
        "recipe": trained.recipe, "epoch": trained.best, "run": trained.run, "selector": decoder.select,
        "scorer": decoder.retrieve, "method": engine.methods()["mmr"],
        "parameter": engine.methods()["mmr"].params[0], "error": engine.DataError(""),
    }  # fmt: skip
    return {name: public(value) for name, value in values.items()}


def commands(command, path=()):
    """Every command's flags and arguments, by its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        members = {name: command.get_command(context, name) for name in command.list_commands(context)}
        return {k: v for name, member in members.items() for k, v in commands(member, (*path, name)).items()}
    given = command.get_params(click.Context(command))
    return {" ".join(path): sorted({name for p in given for name in (*p.opts, *p.secondary_opts)} - {"--help"})}


def spelt():
    """Every string that the source writes out."""
    files = [file for folder in ("engine", "dashboard") for file in (ROOT / folder).rglob("*.py")]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    return {node.value for tree in trees for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip


def page(name, source=CORPUS, link=None, **session):
    """A page as a session sees it that comes by a link, or whose source is loaded."""
    for wanted in {source, *([Source(source.path, dtype=source.dtype)] if source.trained else [])}:
        pages.load(wanted)
    session = {} if link else {"source": source, **session}
    return pages.drawn(pages.SCREENS / f"{name}.py", link or {}, **session)


def keys_of(app):
    """The keys of all that is drawn; what is counted or hashed in them stands as #."""
    keys = {getattr(element, "key", None) for element in app._tree}
    plain = (key.replace(CORPUS.path, "PATH") for key in keys if isinstance(key, str) and ":" not in key)
    return {re.sub(r"(?<![a-zA-Z0-9])\d+(?![a-z0-9])", "#", re.sub(r"[0-9a-f]{8,}", "#", key)) for key in plain}


EVERY = {
    "decoders": list(engine.methods("selector")),
    "pool": 20,
    "explore.nnn.solver": "fista",
    "explore.top_k.retrieve": "hybrid",
    "explore.mmr.rerank": "random_projection",
    "explore.dpp.retrieve": "truncated",
    "explore.ssd.retrieve": "bm25",
}
LOOKS = {
    "explore": [EVERY],
    "tradeoff": [{"tradeoff.decoders": ["top_k", "mmr"]}],
    "tune": [
        {"tune.method": "mmr"},
        {"tune.method": "nnn"},
        *({"tune.page": "Train", "train.method": f} for f in ("dense", "nnn", "colt", "dual_encoder", "multi_vector")),
    ],
    "drift": [{"drift.source.True": "Your feedback"}, {"drift.source.True": "A simulation"}],
    "theory": [{}, {"theory.group": "Search"}],
    "data": [{}, {"data.way": "Path", "data.path": CORPUS.path}],
}
"""Sessions in which a page is looked at, each of them in every one of its views."""


CLICKED = ("tune.start", "train.open.", "drift.simulate.start", "tradeoff.start")
"""Buttons that show more."""


def page_keys(name):
    """The keys of a page's widgets: in all its views, and in the dialogs."""
    found, seen = set(), set()
    for session in LOOKS[name]:
        app = pages.ended(page(name, **session))
        for button in [b.key for b in app.button if str(b.key).startswith(CLICKED) and not b.disabled]:
            found |= keys_of(app)
            pages.ended(pages.press(app, button))
        found |= keys_of(app)
        for key, options, first in [(group.key, tuple(group.options), group.value) for group in app.segmented_control]:
            for option in () if (key, options) in seen else (*options, first):
                group = next((g for g in app.segmented_control if g.key == key), None)
                if group is not None and option != "Worked example":
                    found |= keys_of(pages.ended(group.set_value(option).run()))
            seen.add((key, options))
    for dialog in (LINK, EXPORT, VIEWS) if name == "explore" else ():
        found |= keys_of(pages.from_menu(page(name), dialog))
    # What is drawn while something is at work is there or not, as it comes.
    return sorted(key for key in found if not key.endswith(".cancel"))


def names(world, folder):
    """All that stays, as the program has it now; tests/frozen/strings.json holds what it had."""
    specs = engine.methods().values()
    return {
        "engine": {name: parameters(getattr(engine, name)) for name in engine.__all__},
        "engine.orag": {name: parameters(getattr(orag, name)) for name in orag.__all__},
        "returned by engine": returned(engine),
        "returned by engine.orag": returned(orag),
        "object": objects(world, folder),
        "method": {f"{s.kind} {s.name}": [f"{p.name}, {p.symbol}, {p.default}" for p in s.params] for s in specs},
        "command": commands(frontier),
    }


def gone(frozen, now, at=""):
    """What of the frozen names is not there now."""
    if isinstance(frozen, dict):
        return [told for name, own in frozen.items()
                for told in (gone(own, now[name], f"{at} {name}") if name in now else [f"{at} {name}"])]  # fmt: skip
    return [f"{at} {name}" for name in frozen if name not in now]
