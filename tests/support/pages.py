"""Pages without a browser: a session's screen, its contents, and corpora for it."""

import json
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest, local_script_runner

import dashboard
from dashboard.services import corpora, jobs, roots
from dashboard.services.off_topic import COUNTING_TITLE
from dashboard.services.source import Source
from dashboard.sharing.dialogs import LINK
from support import datafiles
from support.packed import Packed
from support.paths import TESTS
from support.patience import patient

SCREENS = Path(dashboard.__file__).parent / "screens"
DEMO = Source("numpy-api")
PETS = [(1, "a cat"), (2, "a dog"), (3, "a horse")]
POPOVERS = ("explore.settings", "header.kind", "header.k")
"""Popovers whose contents are drawn only while they are open; tests open them."""
PATIENCE = 300
"""Seconds for the longest job of a test."""
# Typed paths may lie where the tests' files do.
roots.set_rules(roots.Rules(roots=(Path(tempfile.gettempdir()), TESTS)))
# Each AppTest looks for components in every installed package, half a second each time.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
_wait_by_polling = local_script_runner.require_widgets_deltas


def _wait_for_script(runner, timeout=3):
    """Wait for a script's thread: AppTest asks every millisecond, which takes the interpreter from the script."""
    runner._script_thread.join(timeout)
    if not runner.script_stopped():
        _wait_by_polling(runner, 0)


local_script_runner.require_widgets_deltas = _wait_for_script


def run(app):
    """Draw the page again and assert that no exception ended it."""
    app.run()
    assert not app.exception, app.exception
    return app


def load(source=DEMO):
    """Load a corpus."""
    job = corpora.get_loading_job(source)
    job.join(PATIENCE)
    assert not job.running and job.error is None, job.error
    return job.result


def draw_page(script, params=(), **session):
    """Draw a page for a new session; script: a screen's file or a function, params: of the address."""
    make = AppTest.from_function if callable(script) else AppTest.from_file
    app = make(script, default_timeout=patient(60))
    for key, value in dict(params).items():
        app.query_params[key] = value
    for key, value in (dict.fromkeys(POPOVERS, True) | session).items():
        app.session_state[key] = value
    return run(app)


def screen(name, source=None, **session):
    """Draw a screen for a new session after its corpus is loaded, or failed to."""
    chosen = source or DEMO
    job = corpora.get_loading_job(chosen)
    job.join(PATIENCE)
    assert not job.running, f"{chosen.path} is still loading"
    return draw_page(SCREENS / f"{name}.py", source=chosen, **session)


def open_by_link(params, name="explore", **session):
    """Draw a screen for a new session that comes by an address."""
    if params.get("corpus", "numpy-api") == "numpy-api":
        load()
    return draw_page(SCREENS / f"{name}.py", params, **session)


def job_of(app, purpose):
    """Return a session's job for a purpose, None before it has one."""
    return jobs_of(app).get(purpose)


def jobs_of(app):
    """Return a session's jobs by purpose."""
    state = app.session_state
    return state["jobs"] if "jobs" in state else {}  # noqa: SIM401, it has no `get`


def finish_jobs(app, *purposes):
    """Draw the page after its jobs for these purposes, or all of them, have ended."""
    for purpose in purposes or list(jobs_of(app)):
        job = job_of(app, purpose)
        job.join(PATIENCE)
        assert not job.running, f"{job.title} has not ended"
    return finish_counting(run(app))


def finish_counting(app):
    """Draw the page after the jobs that count off-topic documents, if some run: what they find is said beside it."""
    counting = [job for job in jobs.list_running_jobs() if job.title == COUNTING_TITLE]
    for job in counting:
        job.join(PATIENCE)
    return run(app) if counting else app


def press(app, key):
    """Click a button and draw the page."""
    app.button(key=key).click()
    return run(app)


def choose_from_menu(app, option):
    """Choose an option of the menu Share and draw the page."""
    app.menu_button(key="header.share").click(option)
    return run(app)


def fields(address):
    """Return the parameters of an address."""
    return dict(parse_qsl(urlsplit(address).query, keep_blank_values=True, strict_parsing=True))


def link_of(app):
    """Return the parameters of the link in the Share dialog."""
    choose_from_menu(app, LINK)
    return fields(next(c.value for c in app.code if "v=1" in c.value))


def press_and_finish(app, key, *purposes):
    """Click a button, then draw the page after its jobs for these purposes, or all, have ended."""
    return finish_jobs(press(app, key), *purposes)


def start_job(app, key, purpose, count):
    """Start a job by a click on a button; return it once the page shows `count` finished pieces."""
    job = job_of(press(app, key), purpose)
    while job.running and len(job.partial or ()) < count:
        job.join(0.02)
    assert len(job.partial) == count and job.running
    run(app)
    return job


def cancel_job(app, purpose):
    """Cancel a job and draw the page."""
    job = job_of(app, purpose)
    press(app, f"{purpose}.cancel")
    finish_jobs(app, purpose)
    assert job.cancelled
    return app


def pick(app, label, value):
    """Choose an option of a button group, by the group's label, and draw the page."""
    group = next((group for group in app.button_group if group.label == label), None)
    assert group is not None, f"no choice {label!r} on the page: {texts(app)}"
    group.set_value(value)
    return run(app)


def fresh_corpora(patch):
    """Replace the store of loaded corpora by an empty one, while `patch`, a MonkeyPatch, holds."""
    patch.setattr(corpora, "_LOADING_JOBS", jobs.SharedJobs(corpora.MAX_LOADED_CORPORA))


def forget_corpora():
    """Drop all loaded corpora, so that each is read again on its next use."""
    for source, job in corpora.list_loads():
        corpora.drop_load(source, job)


def hold_after(work, count):
    """Wrap the `work` of a page's job so that it waits at its `count`-th piece until it is stopped."""

    def holding(*args, seen, stop, **options):
        pieces = []

        def hold(piece):
            seen(piece)
            pieces.append(piece)
            if len(pieces) == count:
                stop.wait(patient(120))

        return work(*args, seen=hold, stop=stop, **options)

    return holding


def component(app, key):
    """Return the data of a browser component; None if it is not on the page."""
    views = {element.key: json.loads(element.proto.json) for element in app.get("bidi_component")}
    return views.get(key)


def emit(app, key, event, value, once=True):
    """Have a browser component report an event, then draw the page; once: a trigger, not a state."""
    ident = next(e.proto.id for e in app.get("bidi_component") if e.key == key)
    states = app._tree.get_widget_states()
    if once:
        heard = states.widgets.add(id=f"$$STREAMLIT_INTERNAL_KEY_{ident}__events")
        heard.json_trigger_value = json.dumps([{"event": event, "value": value}])
    else:
        states.widgets.add(id=ident, json_value=json.dumps({event: value}))
    app._run(states)
    assert not app.exception, app.exception
    return app


def tiles(app):
    """Return Explore's tiles by the decoders' keys, each with its set as a Packed under "set"."""
    data = component(app, "explore.tiles") or {"decoders": []}
    return {tile["key"]: {**tile, "set": Packed(tile["now"])} for tile in data["decoders"]}


def figures(app, label):
    """Return a figure of each tile by name and k, such as Recall@10; none if it does not exist."""
    data, (name, _, k) = component(app, "explore.tiles"), label.partition("@")
    assert data["k"] == int(k)
    packed_sets = [tile["set"] for tile in tiles(app).values()]
    if name == "ILAD":
        return [packed.diversity() for packed in packed_sets]
    assert name == "Recall", name
    return [packed.count_relevant() / data["judged"] for packed in packed_sets] if data["judged"] else []


def notes(app):
    """Return the notes of the tiles."""
    return {key: tile["note"] for key, tile in tiles(app).items()}


def texts(app):
    return " ".join(t.value for kind in (app.text, app.caption, app.info, app.error, app.warning) for t in kind)


def tables(app, column):
    """Return the tables with a column of this name."""
    return [t.value for t in app.dataframe if column in t.value]


def first_table(app, column):
    """Return the first table with a column of this name."""
    return tables(app, column)[0]


def columns(app, name):
    """Return the columns of this name, of every table that has one."""
    return [list(table[name]) for table in tables(app, name)]


def column(app, name):
    """Return the column of this name of the first table that has one."""
    return columns(app, name)[0]


def sets(app):
    """Return the documents of each ranked list, in order; none if the lists are not drawn."""
    lists, tiles_data = component(app, "explore.lists"), component(app, "explore.tiles")
    if lists is None or tiles_data is None:
        return []
    assert lists["query"] == tiles_data["query"], "the lists follow these tiles"
    return [tile["set"].names() for tile in tiles(app).values()]


def baseline(app):
    """Return the documents of the baseline set."""
    tiles_data = component(app, "explore.tiles")
    baseline_sets = (tile["now"] for tile in tiles_data["decoders"] if tile["baseline"])
    return Packed(tiles_data["base"] or next(baseline_sets)).names()


def widgets(app):
    kinds = (app.slider, app.select_slider, app.number_input, app.toggle, app.selectbox)
    return {widget.key for kind in kinds for widget in kind}


def keys(app):
    """Return the keys of the buttons."""
    return [button.key for button in app.button]


def assert_plain(app, *markup):
    """Assert that no element that interprets Markdown or HTML holds any of these texts."""
    for kind in (app.markdown, app.caption, app.info, app.warning, app.error, app.success):
        assert not [element.value for element in kind if any(text in str(element.value) for text in markup)]


def beir(folder, documents, queries=(), **splits):
    """Write a BEIR folder of (id, text) documents and queries; splits: relevant (query, document) pairs."""
    documents, queries = ([{"_id": ident, "text": text} for ident, text in rows] for rows in (documents, queries))
    pairs = {
        name: "".join(f"{query}\t{doc}\t1\n" for query, doc in relevant_pairs)
        for name, relevant_pairs in splits.items()
    }
    return datafiles.beir(folder, documents, queries, **{f"qrels__{name}": text for name, text in pairs.items()})


def csv_source(file, rows):
    """Write a table of (id, text) and return its Source."""
    file.write_text("".join(f"{ident},{text}\n" for ident, text in (("id", "text"), *rows)), encoding="utf-8")
    return Source(str(file), columns=("id", "text", None))


def beir_with_vectors(folder, n_documents=24, dimension=1536):
    """Write a BEIR folder whose documents and queries have vectors of their own; return its Source."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(n_documents + 6, dimension))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    # Each query is near the document of its number.
    rows[n_documents:] = rows[:6]
    pairs = [(f"q{number}", f"d{number}") for number in range(6)]
    documents = [(f"d{number}", f"thing {number}") for number in range(n_documents)]
    beir(folder, documents, [(query, f"query {query}") for query, _ in pairs], test=pairs)
    np.save(folder / "vectors.npy", rows[:n_documents])
    np.save(folder / "query_vectors.npy", rows[n_documents:])
    return Source(str(folder))
