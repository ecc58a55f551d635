"""The current names of the program, and pages as a session sees them, for the tests of frozen names."""

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
from support.public_values import build_facade_values  # isort: skip
from support import pages  # isort: skip
# ---

FROZEN = ROOT / "tests" / "frozen"
STRINGS = json.loads((FROZEN / "strings.json").read_bytes())
CORPUS = Source("tests/frozen/corpus", dtype="float32")
"""Relative, as the tests run in the root of the checkout."""


def populate_home(world):
    """Fill a home with votes, a saved view and a finished training."""
    dataset, space, queries = world
    log = orag.log(orag.place(space), space)
    for row in range(3):
        log.snapshot(f"before {row}")
        log.feed(orag.thumb(log.session, queries.take([row]), dataset.corpus.ids[row]))
    log.undo(log.session.history[1].id)
    answer = snapshots.SavedAnswer("MMR", "mmr", ((dataset.corpus.ids[0], ""),), {"ILAD@1": None}, "MMR")
    view_fields = {"corpus": "c", "digest": "d", "vectors": "v", "encoder": "bundled", "query": "q"}
    snapshots.save(
        snapshots.make_snapshot("a view", state={"v": "1", "k": "3"}, answers={"mmr": answer}, **view_fields)
    )
    session_values = {f"train.dense.{name}": value for name, value in {"hidden": 2, "epochs": 1, "batch": 8}.items()}
    pages.finish_jobs(
        pages.press(page("tune", **{"tune.page": "Train", "train.method": "dense"}, **session_values), "train.start")
    )


def list_public(value):
    """List the public names of a value."""
    return sorted(name for name in dir(value) if not name.startswith("_"))


def list_parameters(value):
    """List the names of a callable's parameters, in order; none of anything else."""
    try:
        return list(inspect.signature(value).parameters) if callable(value) else []
    except ValueError:  # a class that is an exception
        return []


def list_returned_members(module):
    """List the public names of the classes that a façade's functions return, by function."""
    kinds = {}
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value):
            kind = inspect.signature(value, eval_str=True).return_annotation
            if inspect.isclass(kind) and kind.__module__.partition(".")[0] == "engine":
                kinds[name] = {*list_public(kind), *getattr(kind, "__dataclass_fields__", {})}
    return {name: sorted(n for n in members if not n.startswith("_")) for name, members in kinds.items()}


def list_object_members(world, folder):
    """List the public names of values from a façade, by the value's name there."""
    return {name: list_public(value) for name, value in build_facade_values(world, folder).items()}


def list_command_flags(command, path=()):
    """List every command's flags and arguments, by its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        members = {name: command.get_command(context, name) for name in command.list_commands(context)}
        return {k: v for name, member in members.items() for k, v in list_command_flags(member, (*path, name)).items()}
    params = command.get_params(click.Context(command))
    return {" ".join(path): sorted({name for p in params for name in (*p.opts, *p.secondary_opts)} - {"--help"})}


def list_strings():
    """Collect every string literal of the source."""
    files = [file for folder in ("engine", "dashboard") for file in (ROOT / folder).rglob("*.py")]
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in files)
    return {node.value for tree in trees for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip


def page(name, source=CORPUS, link=None, **session):
    """Draw a page for a session that comes by a link, or whose source is loaded."""
    for wanted in {source, *([Source(source.path, dtype=source.dtype)] if source.trained else [])}:
        pages.load(wanted)
    session = {} if link else {"source": source, **session}
    return pages.draw_page(pages.SCREENS / f"{name}.py", link or {}, **session)


def keys_of(app):
    """Return the keys of all drawn elements, counts and hashes in them replaced by #."""
    keys = {getattr(element, "key", None) for element in app._tree}
    raw_keys = (key.replace(CORPUS.path, "PATH") for key in keys if isinstance(key, str) and ":" not in key)
    return {re.sub(r"(?<![a-zA-Z0-9])\d+(?![a-z0-9])", "#", re.sub(r"[0-9a-f]{8,}", "#", key)) for key in raw_keys}


ALL_DECODERS = {
    "decoders": list(engine.methods("selector")),
    "pool": 20,
    "explore.nnn.solver": "fista",
    "explore.top_k.retrieve": "hybrid",
    "explore.mmr.rerank": "random_projection",
    "explore.dpp.retrieve": "truncated",
    "explore.ssd.retrieve": "bm25",
}
LOOKS = {
    "explore": [ALL_DECODERS],
    "tradeoff": [{"tradeoff.decoders": ["top_k", "mmr"]}],
    "tune": [
        {"tune.method": "mmr"},
        {"tune.method": "nnn"},
        *({"tune.page": "Train", "train.method": f} for f in ("dense", "nnn", "colt", "dual_encoder", "multi_vector")),
    ],
    "drift": [{"drift.source.True": "Your votes"}, {"drift.source.True": "A simulation"}],
    "theory": [{}, {"theory.group": "Search"}],
    "data": [{}, {"data.way": "Path", "data.path": CORPUS.path}],
}
"""Sessions in which a page is looked at, each of them in every one of its views."""


CLICKED = ("tune.start", "train.open.", "drift.simulate.start", "tradeoff.start")
"""Buttons that show more."""


def _list_ended_jobs(app):
    """List the session's jobs that have ended: what is drawn next shows their results."""
    return [job for job in pages.jobs_of(app).values() if not job.running]


def _finish_new_jobs(app, ended_before=()):
    """Return the page as it is drawn after its jobs; it is drawn anew for those that had not ended before it was."""
    has_new = any(job not in ended_before for job in pages.jobs_of(app).values())
    return pages.finish_jobs(app) if has_new else app


def page_keys(name):
    """Return the keys of a page's widgets, in all its views and dialogs."""
    widget_keys, seen = set(), set()
    for session in LOOKS[name]:
        app = _finish_new_jobs(page(name, **session))
        for button in [b.key for b in app.button if str(b.key).startswith(CLICKED) and not b.disabled]:
            widget_keys |= keys_of(app)
            old_jobs = _list_ended_jobs(app)
            _finish_new_jobs(pages.press(app, button), old_jobs)
        widget_keys |= keys_of(app)
        for key, options, first in [(group.key, tuple(group.options), group.value) for group in app.segmented_control]:
            for option in () if (key, options) in seen else (*options, first):
                group = next((g for g in app.segmented_control if g.key == key), None)
                if group is not None and option not in ("Worked example", group.value):
                    old_jobs = _list_ended_jobs(app)
                    widget_keys |= keys_of(_finish_new_jobs(group.set_value(option).run(), old_jobs))
            seen.add((key, options))
    for dialog in (LINK, EXPORT, VIEWS) if name == "explore" else ():
        widget_keys |= keys_of(pages.choose_from_menu(page(name), dialog))
    # What is drawn while something is at work is there or not, as it comes.
    return sorted(key for key in widget_keys if not key.endswith(".cancel"))


def collect_names(world, folder):
    """Collect the names that have to stay; tests/frozen/strings.json holds the earlier ones."""
    specs = engine.methods().values()
    return {
        "engine": {name: list_parameters(getattr(engine, name)) for name in engine.__all__},
        "engine.orag": {name: list_parameters(getattr(orag, name)) for name in orag.__all__},
        "returned by engine": list_returned_members(engine),
        "returned by engine.orag": list_returned_members(orag),
        "object": list_object_members(world, folder),
        "method": {f"{s.kind} {s.name}": [f"{p.name}, {p.symbol}, {p.default}" for p in s.params] for s in specs},
        "command": list_command_flags(frontier),
    }


def find_missing(frozen, now, prefix=""):
    """List the frozen names that are gone."""
    if not isinstance(frozen, dict):
        return [f"{prefix} {name}" for name in frozen if name not in now]
    missing = []
    for name, members in frozen.items():
        path = f"{prefix} {name}"
        missing += find_missing(members, now[name], path) if name in now else [path]
    return missing
