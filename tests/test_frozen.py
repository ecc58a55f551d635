"""What users see stays: names, keys, flags, addresses, and every file that an older Frontier wrote.

The data were written by the version that tests/frozen/README.md names. A name that is gone fails; a new one does not.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import engine
from engine import orag
from engine.training import train
from support.frozen import (
    CORPUS,
    EXPECTED,
    FEW,
    FROZEN,
    LINKS,
    LOOKS,
    STRINGS,
    VIEWS,
    Source,
    Stopped,
    called_now,
    frontier,
    gone,
    judged,
    names,
    page,
    page_keys,
    parameters,
    read_link,
    sealed,
    shared,
    spelt,
    stored,
    study,
)
from support.pages import ended, from_menu, press, run, texts
from support.paths import ROOT


@pytest.fixture(scope="module", autouse=True)
def root():
    """The root of the checkout as the current folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        yield


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A copy of the FRONTIER_HOME that the older version left, and the build of torch that it trained with.

    What another build trained is trained anew, and pip brings another one elsewhere.
    """
    versions = {**train._versions(), "torch": "2.13.0+cpu"}
    monkeypatch.setattr(train, "_versions", lambda: versions)
    shutil.copytree(FROZEN / "home", tmp_path / "home")
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """(data set, space, the vectors of all its queries), all from the older version's cache."""
    place = tmp_path_factory.mktemp("world") / "home"
    shutil.copytree(FROZEN / "home", place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRONTIER_HOME", str(place))
        dataset = engine.load_dataset(CORPUS.path)
        space = engine.Space(dataset.corpus, engine.embed(dataset.corpus, dtype="float32"), "cpu")
        return dataset, space, engine.embed_queries(space, dataset.queries)


def test_no_name_is_gone(world, home):
    missing = gone(STRINGS["names"], names(world, home))
    assert not missing, "\n".join(f"frozen name {name.strip()} is gone" for name in missing)


def test_parameters_keep_their_order():
    """Callers may give them by place; of Embeddings the first two in either order, which test_values.py asserts."""
    assert parameters(engine.Embeddings) == ["ids", "vectors", "encoder", "texts"]
    for facade, module in (("engine", engine), ("engine.orag", orag)):
        for name, frozen in STRINGS["names"][facade].items():
            if name == "Embeddings":
                continue
            kept = [p for p in parameters(getattr(module, name)) if p in frozen]
            assert kept == frozen, f"the parameters of {facade}.{name} were {frozen} and are {kept}"


def test_orag_is_reached_in_every_way():
    code = (
        "import engine; a = engine.orag.session\nfrom engine import orag; assert orag.session is a\n"
        "import engine as e; assert e.orag.log is orag.log and 'orag' in dir(engine) and 'orag' in engine.__all__"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_metric_is_measured(world):
    dataset, space, _ = world
    dev = judged(world, "dev")
    ranking = engine.decode(engine.Decoder(engine.make("top_k")), space, dev, 5)
    for name in STRINGS["metrics"]:
        found = engine.measure(ranking, space, dev, dataset.qrels["dev"], 5, [name], dataset.aspects)
        assert len(found.values[name]) == len(dev), f"frozen metric {name} is gone"


@pytest.mark.parametrize("name", LOOKS)
def test_no_widget_key_is_gone(name):
    missing = gone(STRINGS["keys"][name], page_keys(name), name)
    assert not missing, "\n".join(f"frozen name {key} is gone" for key in missing)


def test_no_spelling_is_gone():
    """Folders and files of FRONTIER_HOME, suffixes, and what an address is made of."""
    now = spelt()
    missing = [name for group, frozen in STRINGS["spelt"].items() for name in gone(frozen, now, group)]
    assert not missing, "\n".join(f"frozen name {name.strip()} is gone" for name in missing)


@pytest.mark.parametrize("name,value", STRINGS["address"].items())
def test_a_field_of_an_address_is_read(name, value):
    remarks = [told for told in read_link({"v": "1", name: value}).remarks if "does not know" in told]
    assert not remarks, f"frozen name {name} is gone: {remarks}"
    assert read_link({"v": "1", "nosuch": "1"}).remarks, "what is not known is said"


# --- What an older version wrote ---


def test_embeddings_are_found_and_no_encoder_is_loaded(world, home):
    before = sealed(home / "embeddings")
    dataset, said = engine.load_dataset(CORPUS.path), []
    how = {"dtype": "float32", "progress": lambda done, total, label: said.append(label)}
    corpus = engine.embed(dataset.corpus, **how)
    queries = engine.embed(dataset.queries, **how)
    assert {"corpus": corpus.digest, "queries": queries.digest} == EXPECTED["embeddings"]
    assert "embedding" not in said and sealed(home / "embeddings") == before
    engine.embed(engine.Queries.of("something else"), **how)
    assert "embedding" in said and len(sealed(home / "embeddings")) > len(before), "a miss would be seen"


def test_maps_are_found(world, home):
    before, said = sealed(home / "maps"), []
    for way, digest in EXPECTED["maps"].items():
        found = engine.layout(world[1], way, progress=lambda done, total, label: said.append(label))
        assert found.digest == digest
    assert set(said) == {"reading the cache"} and sealed(home / "maps") == before


def test_a_sweep_is_read_from_its_store(world, tmp_path):
    dataset, space, _ = world
    store, dev = stored("sweep.db", tmp_path), judged(world, "dev")
    decoders = [*engine.grid("top_k"), *engine.grid("mmr", 3)]
    decoders.append(engine.Decoder(engine.make("nnn", l1=0.05), engine.make("bm25"), None, 20))
    asked = {"queries": dev, "qrels": dataset.qrels["dev"], "k": (3, 5), "split": "dev", "store": store}
    points = list(engine.sweep(decoders, space, **asked, stop=Stopped()))
    told = ("key", "label", "k", "mean", "milliseconds", "digest")
    found = {point.key: {name: getattr(point, name) for name in told} for point in points}
    assert found == {cell["key"]: cell for cell in EXPECTED["sweep"]}
    assert all(point.latency is None for point in points), "theirs is the time of many queries together"
    wider = [*decoders, engine.Decoder(engine.make("ssd"))]
    with pytest.raises(engine.Cancelled):
        list(engine.sweep(wider, space, **asked, stop=Stopped()))
    with sqlite3.connect(store) as database:
        assert database.execute("SELECT count(*) FROM cells").fetchone() == (len(points),)
    done = CliRunner().invoke(frontier, ["compare", str(store), "-k", "5", "--json"])
    assert done.exit_code == 0 and {cell["label"] for cell in EXPECTED["sweep"]} >= set(labels(json.loads(done.stdout)))
    kept = {point.key: point.latency for point in engine.sweep(wider, space, **asked)}
    assert len(kept) == len(points) + 2 and sum(time is not None for time in kept.values()) == 2, "it is written on"
    assert {name: getattr(next(engine.sweep(decoders, space, **asked)), name) for name in told} in EXPECTED["sweep"]


def labels(told):
    """Every label in plain JSON values."""
    if isinstance(told, dict):
        return [label for name, own in told.items() for label in ([own] if name == "label" else labels(own))]
    return [label for own in told for label in labels(own)] if isinstance(told, list) else []


def test_a_study_goes_on_from_its_store(world, tmp_path):
    found = study(world, stored("study.db", tmp_path), Stopped())
    told, expected = json.loads(json.dumps(found.as_json())), dict(EXPECTED["study"])
    # What people read may be put better; the numbers in it are of the same study.
    sentences, older = told.pop("sentences"), expected.pop("sentences")
    for row in told["comparisons"]:  # since then the ends of the differences are told too
        assert row.pop("least") <= row["difference"] <= row.pop("most")
    # Since it must be kept for certain, settings that keep just the share are no rivals.
    assert told == expected | {"firm": 1.0} and len(sentences) == len(older)
    assert [*sentences[:3], *sentences[6:8], sentences[11]] == [
        "MMR · λ 0.75: chosen from all 5 settings for maximum ILAD with Recall ≥ 95% of the baseline's, on dev "
        "(6 queries).",
        "Highest ILAD@5: 0.695 (Top-k: 0.666), of the 2 of 5 settings that keep 95% of Top-k's Recall@5 (0.950 of "
        "1.000) with 95% confidence. Its Recall@5: 1.000.",
        "Stability: 100% of 200 bootstrap samples choose this setting.",
        "On test: MMR · λ 0.75 and Top-k have the same nDCG@5 on all 6 queries.",
        "On test: No significant difference. MMR · λ 0.75: +0.017 ILAD@5 vs Top-k (95% CI −0.003 to 0.059, p > 0.99, "
        "Holm over 4); better on 2 queries, worse on 1 query, the same on 3.",
        "ILAD@5: +0.029 vs the baseline on dev, +0.017 on test; no significant difference between the two (95% CI "
        "−0.029 to +0.055).",
    ]
    with pytest.raises(engine.Cancelled):
        study(world, tmp_path / "new.db", Stopped())


def told(session):
    """What a session holds, as plain values."""
    return {
        "digest": session.embeddings().digest, "position": session.position, "round": session.round,
        "temperature": session.temperature, "preset": session.preset.as_json(),
        "history": [e.id for e in session.history], "events": [e.id for e in session.events],
        "status": [session.status(e.id) for e in session.history], "people": [e.person for e in session.history],
        "kinds": [e.kind for e in session.history], "snapshots": dict(session.snapshots),
        "available": None if session.available is None else session.available.tolist(),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["log", "full"])
def test_feedback_is_what_it_was(world, home, tmp_path, name):
    """By the path of the old file and by where the space's own feedback belongs, to look and to write on."""
    space, expected = world[1], dict(EXPECTED[name])
    path = stored("full.jsonl", tmp_path) if name == "full" else next((home / "feedback").glob("*.jsonl"))
    raw, records, moments = path.read_bytes(), expected.pop("records"), expected.pop("at", {})
    found, notices = orag.load(path, space)
    assert told(found) == expected and all("an older version wrote it" in notice.what for notice in notices)
    assert [record.id for record in found.records] == [id for _, id in records]
    for at, digest in moments.items():
        assert orag.at(found, int(at) if at.isdigit() else at).embeddings().digest == digest
    opened = [orag.log(path, space)] if name == "full" else [orag.log(path, space), orag.log(orag.place(space), space)]
    for log in opened:
        assert told(log.session) == expected
    assert path.read_bytes() == raw
    log = opened[-1]
    after = log.feed(orag.thumb(log.session, judged(world, "test").take([0]), space.corpus.ids[0], person="new"))
    assert after.round == expected["round"] + 1 and [e.id for e in after.history][:-1] == expected["history"]
    assert log.undo(after.history[-1].id).embeddings().digest == expected["digest"]
    assert [told(orag.log(log.path, space).session)[part] for part in ("round", "digest")] == [
        after.round, expected["digest"]]  # fmt: skip


def sketch(vectors):
    """The numbers by which the older version knew vectors: a weighted mean."""
    rows = vectors.double()
    return (torch.arange(len(rows), dtype=torch.float64).cos() @ rows / len(rows)).numpy()[:24]


@pytest.mark.parametrize("name", EXPECTED["trained"])
def test_a_checkpoint_is_what_it_was(world, home, name):
    expected = EXPECTED["trained"][name]
    kept = home / "trained" / f"{EXPECTED['in_use']}.safetensors"
    found = engine.load_trained(kept if name == "dense" else FROZEN / "stores" / f"{name}.safetensors", world[1])
    plain = {"digest": found.digest, "decoder": found.decoder.label, "best": found.best.epoch}
    plain |= {"stopped": found.stopped, "recipe": found.recipe.as_json()}
    assert plain == {part: expected[part] for part in plain}
    assert np.allclose(sketch(found.space.embeddings.vectors), expected["documents"], rtol=0, atol=1e-5)
    assert np.allclose(sketch(found.queries(judged(world, "dev")).vectors), expected["queries"], rtol=0, atol=1e-5)


def rounded(value):
    """Plain JSON values, with numbers to five digits: others of another processor's arithmetic are the same."""
    if isinstance(value, dict):
        return {name: rounded(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(own) for own in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def test_a_simulation_goes_on_from_its_file(home, tmp_path):
    file, arguments = stored("simulation.npz", tmp_path), EXPECTED["simulate"]["arguments"]
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive}
    said = json.loads(str(arrays.pop("said")))
    assert 0 < said["done"] < EXPECTED["simulate"]["told"]["rounds"], "it was stopped on the way"
    for marked in (False, True):
        if marked:
            said["checkpoints"][0]["drift"]["median"] = 0.125
        np.savez(file, said=np.array(json.dumps(said)), **arrays)
        done = CliRunner().invoke(frontier, [*arguments, "--file", str(file)])
        assert done.exit_code == 0, done.output
        now = json.loads(done.stdout)
        first, *_ = now.pop("exploration")
        assert first["top"] is None, "an older file does not say what would have come without exploring"
        same = rounded(now) == rounded(EXPECTED["simulate"]["told"])
        assert same is not marked, "the file is what counts"


FOREIGN = "0123456789abcdef"
"""A folder of compiled code of a version that is not this one."""


def test_compiled_code_of_another_version_harms_nothing(home):
    folder = home / "code" / FOREIGN / f"solvers_{'0' * 40}"
    folder.mkdir(parents=True)
    for name in ("homotopy.follow-29.py311.nbi", "homotopy.follow-29.py311.1.nbc", "active_set.dot-26.py311.nbi"):
        (folder / name).write_bytes(b"\x80\x04no code at all")
    before = sealed(home / "code" / FOREIGN)
    code = (
        "import engine, numpy as np; rows = np.eye(4); "
        "print(engine.select('max_sum', rows, rows[0] + rows[1], 2).index.tolist())"
    )
    bare = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=bare, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "[[0, 1]]", done.stdout + done.stderr
    assert sealed(home / "code" / FOREIGN) == before


# --- Pages ---


def test_the_pages_find_what_they_kept(home, monkeypatch):
    cells, run = sealed(home / "sweeps"), sealed(home / "trained")
    monkeypatch.setattr("dashboard.services.sweeps.BY_ITSELF", 0)  # the curves, which that version did not have
    app = page("tradeoff", **{"tradeoff.decoders": ["top_k", "mmr"], "k": 5})
    assert "Not measured yet: every λ of 1 decoder, on" in texts(app), "no setting is missing"
    assert any("Best setting" in table.value for table in app.dataframe)
    app = page("tradeoff", **{"tradeoff.decoders": ["top_k", "mmr"], "k": 5, "tradeoff.x.judged": "milliseconds"})
    assert "no point at k = 5 has a time" in texts(app) and not app.get("plotly_chart")
    app = page("tune", **{"tune.page": "Train"})
    (name,) = {Path(file).parts[0] for file in run if len(Path(file).parts) > 1}
    assert "finished" in texts(app) and app.button(key=f"train.open.{name}")
    ended(press(app, f"train.open.{name}"))
    assert any("System" in table.value for table in app.dataframe)
    assert sealed(home / "sweeps") == cells and sealed(home / "trained") == run


def test_the_page_goes_on_with_a_simulation(home):
    session = EXPECTED["simulation"]["session"]
    app = page("drift", FEW, **session)
    assert app.button(key="drift.simulate.start").label == "Resume", "the file's name is what it was"
    app = ended(press(app, "drift.simulate.start"))
    (outcome,) = app.session_state["drift.outcomes"].values()
    assert rounded(outcome.simulated.checkpoints[-1].as_json()) == rounded(EXPECTED["simulation"]["last"])
    assert not list((home / "simulations").glob("*.npz"))


def test_the_feedback_is_on_the_page():
    app = ended(page("drift", **{"drift.source.True": "Your feedback"}))
    app = ended(app.segmented_control(key="drift.view.True").set_value("Votes").run())
    kept = [table.value for table in app.dataframe if len(table.value) == EXPECTED["log"]["round"]]
    assert kept and any("undone" in " ".join(map(str, row)) for row in kept[0].values.tolist()), texts(app)


def test_a_snapshot_opens(home):
    expected = EXPECTED["snapshot"]
    (file,) = (home / "snapshots").glob("*.json")
    app = from_menu(page("explore"), VIEWS)
    assert app.selectbox(key="snapshot.picked").value == expected["id"]
    assert any(expected["name"] in option for option in app.selectbox(key="snapshot.picked").options)
    app.menu_button(key="header.share").click(VIEWS)
    app.button(key="snapshot.open").click()
    run(app)
    assert not app.warning, texts(app)
    assert {key: app.session_state[key] for key in expected["session"]} == called_now(expected["session"])
    kept = json.loads(file.read_bytes())["state"]
    assert shared(app) == called_now({name: value for name, value in kept.items() if name != "page"})


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link["page"])
def test_a_link_opens(link):
    given = dict(parse_qsl(link["address"].removeprefix("?"), keep_blank_values=True, strict_parsing=True))
    trained = given.get("trained", "")
    source = Source(CORPUS.path, dtype="float32", trained=trained)
    app = page(link["page"], source, given)
    if link["page"] == "data":  # it keeps the link for the page that is opened next
        assert not app.warning and not app.error and app.session_state["source"] == source
        app = page("explore", source, given)
    app = run(app) if trained else app
    assert not app.warning and "Not all of the link" not in texts(app), texts(app)
    assert {key: app.session_state[key] for key in link["session"]} == called_now(link["session"])
    back = shared(app)
    assert {name: back.get(name) for name in given} == called_now(given)
    assert set(back) - set(given) <= {"vectors", "view"}
