"""Snapshots, exports and the first steps: what was seen is kept as it was, for everybody and not as markup."""

import csv
import io
import json
import threading
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest
from test_pages import figures, screen, texts
from test_sharing import SELECTORS, opened

from dashboard import state
from dashboard.sharing import hint, snapshots
from dashboard.sharing.link import State, to_params
from dashboard.sharing.snapshots import Answer
from dashboard.state import Source
from engine.decoder import Decoder
from engine.errors import DataError
from engine.home import home


@pytest.fixture
def empty():
    """A FRONTIER_HOME with nothing saved."""
    for file in (home() / "snapshots").glob("*"):
        file.unlink()
    (home() / hint.FILE).unlink(missing_ok=True)
    yield home()
    for file in (home() / "snapshots").glob("*"):
        file.unlink()
    (home() / hint.FILE).unlink(missing_ok=True)


def snapshot(name="one", documents=("a", "b", "c"), **what):
    answer = Answer("MMR", "mmr(…)", tuple((d, d.upper()) for d in documents), {"ILAD@3": 0.25, "Recall@3": None})
    kept = {
        "state": {"v": "1", "k": "3"}, "corpus": "pets", "digest": "d1", "vectors": "v1", "encoder": "bundled",
        "query": "q", "answers": {"mmr": answer},
    }  # fmt: skip
    return snapshots.new(name, **kept | what)


def test_a_snapshot_comes_back_as_it_was(empty):
    saved = snapshots.save(snapshot("été 中文"))
    assert snapshots.listed() == ([saved], []) and saved.name == "été 中文" and saved.frontier
    renamed = snapshots.rename(saved.id, "winter")
    assert snapshots.listed()[0] == [replace(saved, name="winter")] == [renamed]
    snapshots.delete(saved.id)
    snapshots.delete(saved.id)
    assert snapshots.listed() == ([], [])
    with pytest.raises(DataError, match="deleted in the meantime"):
        snapshots.rename(saved.id, "again")


@pytest.mark.parametrize(
    "given,kept",
    [
        ("../../etc/passwd", "../../etc/passwd"),
        ("a\nb\0c\x1b[31m", "a b c [31m"),
        ("x" * 500, "x" * 80),
        ("\ud83d!", "?!"),
    ],
)
def test_names_are_made_harmless_and_choose_no_file(empty, given, kept):
    saved = snapshots.save(snapshot(given))
    assert saved.name == kept
    assert [p.name for p in (empty / "snapshots").iterdir()] == [f"{saved.id}.json"]


def test_a_name_is_needed_and_no_two_are_alike(empty):
    with pytest.raises(DataError, match="needs a name"):
        snapshot(" \n\t\0")
    assert [snapshots.save(snapshot("a")).name for _ in range(3)] == ["a", "a (2)", "a (3)"]
    with pytest.raises(DataError, match="no snapshot"):
        snapshots.delete("../settings")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"format": 1}', b'{"format": "x"}', b'{"format": 99}', b"\xff\xfe", b"[" * 100_000],
)
def test_a_damaged_file_is_named_and_hides_no_other(empty, content):
    saved = snapshots.save(snapshot())
    (empty / "snapshots" / f"{'0' * 32}.json").write_bytes(content)
    (empty / "snapshots" / "notes.json").write_text("somebody's own")
    found, broken = snapshots.listed()
    assert found == [saved] and len(broken) == 1 and broken[0].startswith("000")


@pytest.mark.parametrize("at,value", [("name", 3), ("query", None), ("answers", []), ("state", {"k": 3}), ("made", 1)])
def test_a_file_of_other_types_is_not_taken(empty, at, value):
    saved = snapshots.save(snapshot())
    file = empty / "snapshots" / f"{saved.id}.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {at: value}))
    assert snapshots.listed()[0] == [] and len(snapshots.listed()[1]) == 1


def test_several_people_save_rename_and_delete_at_once(empty):
    wrong = []

    def work(who):
        try:
            for i in range(8):
                mine = snapshots.save(snapshot(f"{who}-{i}"))
                snapshots.listed()
                snapshots.rename(mine.id, f"{who}-{i}-renamed")
                if i % 2:
                    snapshots.delete(mine.id)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found, broken = snapshots.listed()
    assert (
        not wrong
        and not broken
        and sorted(s.name for s in found) == sorted(f"{who}-{i}-renamed" for who in "abcd" for i in range(0, 8, 2))
    )


def test_clearing_the_cache_leaves_snapshots(empty):
    from engine.data import cache

    cache.put("scratch", "a", b"1")
    saved = snapshots.save(snapshot())
    assert snapshots.SECTION not in cache.usage().sections
    cache.clear("scratch")
    assert snapshots.listed()[0] == [saved]


def test_two_snapshots_are_compared():
    first = snapshot("one", state={"v": "1", "k": "3", "text": "x"})
    changed = Answer("MMR", "mmr", (("c", "C"), ("d", "D")), {"ILAD@3": 0.75, "nDCG@3": 0.5})
    second = snapshot("two", state={"v": "1", "k": "5"}, answers={"mmr": changed, "dpp": replace(changed, title="DPP")})
    assert snapshots.settings_apart(first, second) == [("k", "3", "5"), ("text", "x", "–")]
    assert snapshots.figures_apart(first, second) == [
        ("MMR", "ILAD@3", 0.25, 0.75, 0.5),
        ("MMR", "Recall@3", None, None, None),
        ("MMR", "nDCG@3", None, 0.5, None),
        ("DPP", "ILAD@3", None, 0.75, None),
        ("DPP", "nDCG@3", None, 0.5, None),
    ]
    rows = snapshots.sets_apart(first.answers["mmr"], changed)
    assert rows == [
        ("c", "C", 3, 1, "both"),
        ("a", "A", 1, None, "older only"),
        ("b", "B", 2, None, "older only"),
        ("d", "D", None, 2, "newer only"),
    ]
    assert snapshots.counted(rows) == "1 in both, 2 older only, 1 newer only"
    assert snapshots.apart(first, second) is None
    assert "different corpora" in snapshots.apart(first, replace(second, digest="other"))
    assert "other vectors" in snapshots.apart(first, replace(second, vectors="other"))


def page():
    """What a dialog holds, as a page: a page's test runs all of it again at a click, and dialogs close then."""
    import streamlit as st

    from dashboard import frame
    from dashboard.sharing import dialogs

    loaded, asked = frame.begin()
    getattr(dialogs, st.session_state["inside"])(loaded, asked)


def inside(dialog, **session):
    state.loading(Source("numpy-api")).join(120)
    app = AppTest.from_function(page, default_timeout=60)
    for key, value in {"inside": dialog, "source": Source("numpy-api"), **session}.items():
        app.session_state[key] = value
    app.run()
    assert not app.exception, app.exception
    return app


def keep(app, name):
    """Save what is shown."""
    app.text_input(key="snapshot.name").set_value(name)
    app.button(key="snapshot.save").click().run()
    assert not app.exception, app.exception
    return next((s for s in snapshots.listed()[0] if s.name == name), None)


def test_a_snapshot_is_saved_compared_and_opened_again(empty):
    app = inside("saved")
    assert "Nothing saved yet" in texts(app)
    assert keep(app, " ") is None and "needs a name" in texts(app) and not list((empty / "snapshots").glob("*"))
    first = keep(app, "first")
    assert "first is saved" in texts(app) and app.text_input(key="snapshot.name").value == ""
    assert list(first.answers) == list(SELECTORS)[:2] and all(len(a.documents) == 10 for a in first.answers.values())

    moved = {"k": 4, "explore.mmr.relevance_weight": 0.3}
    shown = screen("explore", **moved)
    recall, ilad = figures(shown, "Recall@4"), figures(shown, "ILAD@4")
    app = inside("saved", **moved)
    second = keep(app, "second")
    assert [round(a.figures["ILAD@4"], 3) for a in second.answers.values()] == ilad
    assert [round(a.figures["Recall@4"], 3) for a in second.answers.values()] == recall
    assert second.answers["top_k"].documents == first.answers["top_k"].documents[:4]
    assert second.answers["mmr"].documents != first.answers["mmr"].documents[:4]
    app.selectbox(key="snapshot.other").set_value(first.id).run()
    assert not app.exception
    tables = {tuple(t.value.columns): t.value for t in app.dataframe}
    differing = next(t for c, t in tables.items() if c[0] == "Setting")
    assert set(differing["Setting"]) == {"k", "mmr.relevance_weight"}
    assert any(c[-1] == "Difference" for c in tables) and any(c[-1] == "Where" for c in tables)

    app = inside("saved")
    app.selectbox(key="snapshot.picked").set_value(second.id).run()
    app.button(key="snapshot.open").click().run()
    assert not app.exception and app.slider(key="k").value == 4
    assert app.session_state["explore.mmr.relevance_weight"] == 0.3 and not app.warning


def test_a_snapshot_of_another_corpus_is_opened_when_that_is_there(empty, tmp_path):
    file = tmp_path / "pets.csv"
    file.write_text("id,text\n1,a cat\n2,a dog\n3,a horse\n", encoding="utf-8")
    pets = Source(str(file), columns=("id", "text", None))
    state.loading(pets).join(60)
    saved = keep(inside("saved", source=pets, link={"v": "1", "text": "a pet", "k": "2"}), "pets")
    app = inside("saved")
    app.selectbox(key="snapshot.picked").set_value(saved.id).run()
    app.button(key="snapshot.open").click().run()
    assert not app.exception and app.session_state["source"] == pets and app.slider(key="k").value == 2
    state.forget(pets, state.known(pets))
    app = inside("saved")
    app.button(key="snapshot.open").click().run()
    assert not app.exception and "not loaded here" in texts(app) and saved.vectors[:8] in texts(app)


def test_snapshots_are_renamed_and_deleted_in_the_dialog(empty):
    saved = snapshots.save(snapshot("old"))
    app = inside("saved")
    app.text_input(key="snapshot.rename").set_value("new")
    app.button(key="snapshot.renamed").click().run()
    assert not app.exception and [s.name for s in snapshots.listed()[0]] == ["new"]
    snapshots.delete(saved.id)  # by somebody else
    app.text_input(key="snapshot.rename").set_value("newer")
    app.button(key="snapshot.renamed").click().run()
    assert not app.exception and "deleted in the meantime" in texts(app)
    snapshots.save(snapshot("last"))
    app.run()
    app.button(key="snapshot.deleted").click().run()
    assert not app.exception and snapshots.listed()[0] == [] and "last is deleted" in texts(app)


def test_a_snapshot_of_strangers_is_never_markup(empty):
    evil = "![x](http://192.0.2.1/x.png) $x$ <img src=x>"
    odd = Answer(evil, evil, ((evil, evil),), {evil: 1.0})
    for name in ("Setting", evil):
        snapshots.save(snapshot(name, corpus=evil, query=evil, encoder=evil, vectors=name, answers={"mmr": odd}))
    first, second = snapshots.listed()[0]
    app = inside("saved")
    app.selectbox(key="snapshot.picked").set_value(first.id).run()
    app.selectbox(key="snapshot.other").set_value(second.id).run()
    assert not app.exception and evil in texts(app) and "other vectors" in texts(app)
    for kind in (app.markdown, app.caption, app.info, app.warning, app.error, app.success):
        assert not any("192.0.2.1" in element.value for element in kind)


def test_the_export_dialog_shows_every_target_and_says_what_cannot_be():
    from engine.evaluation.export import TARGETS

    app = inside("export", decoders=["top_k", "mmr", "nnn"], k=5, **{"explore.mmr.relevance_weight": 0.25})
    app.selectbox(key="export.decoder").set_value("mmr").run()
    assert not app.exception
    shown = " ".join(c.value for c in app.code)
    assert len(app.code) == len(TARGETS)
    assert '"lambda_mult": 0.25' in shown and "diversity=0.75" in shown and "k=5" in shown
    app.selectbox(key="export.decoder").set_value("nnn").run()
    assert "cannot express this decoder" in texts(app) and not app.exception
    assert "Choose a decoder on Explore" in texts(inside("export", decoders=[]))


def test_the_three_buttons_open_their_dialogs(empty):
    for button, said in (
        ("share.open", "It opens this page"),
        ("export.open", "2 decoders"),
        ("snapshots.open", "Nothing saved"),
    ):
        app = screen("explore")
        app.button(key=button).click().run()
        assert not app.exception and said in texts(app)


def test_the_files_hold_what_was_retrieved(demo):
    from dashboard.explore.question import Asked
    from dashboard.sharing.seen import figures_csv, look, sets_csv, sets_json
    from dashboard.state import Loaded

    dataset, space = demo
    split, qrels = next(iter(dataset.qrels.items()))
    query = dataset.judged(split).ids[0]
    loaded = Loaded(Source("numpy-api"), dataset, space, None)
    asked = Asked(query, 'a question, "quoted"\nand long', space.embeddings.vectors[5], qrels, 4, None)
    seen = look(loaded, asked, {n: Decoder(SELECTORS[n].cls()) for n in ("top_k", "mmr")})
    rows = list(csv.DictReader(io.StringIO(sets_csv(seen).decode())))
    assert [r["id"] for r in rows if r["decoder"] == "top_k"] == [r.id for r in seen[0].rows] and len(rows) == 8
    assert rows[0]["id"] == dataset.corpus.ids[5] and rows[0]["similarity"] == "" and rows[0]["rank"] == "1"
    named = {(r["decoder"], r["metric"]): r["value"] for r in csv.DictReader(io.StringIO(figures_csv(seen).decode()))}
    assert float(named["mmr", "ILAD@4"]) == seen[1].figures["ILAD@4"]
    whole = json.loads(sets_json(seen, {"v": "1"}, asked.text))
    assert whole["query"] == asked.text and [len(d["documents"]) for d in whole["decoders"]] == [4, 4]
    assert whole["decoders"][0]["documents"][0]["title"] == dataset.corpus.titles[5]


def test_the_first_steps_are_closed_for_the_session_or_for_good(empty):
    def shown(app):
        return any("Trade-off" in m.value for m in app.markdown)

    app = screen("explore")
    assert shown(app)
    app.button(key="hint.close").click().run()
    assert not shown(app) and shown(screen("explore"))
    app = screen("explore")
    app.button(key="hint.never").click().run()
    assert not shown(app) and not shown(screen("explore"))
    (empty / hint.FILE).write_bytes(b"{damaged")
    assert shown(screen("explore"))


def test_the_first_steps_leave_an_opened_link_alone(empty):
    app = opened(to_params(State(Source("numpy-api"), k=3)))
    assert not any("Trade-off" in m.value for m in app.markdown)


def test_without_a_question_there_is_nothing_to_export():
    app = opened({"v": "1", "corpus": "numpy-api", "text": ""})
    assert "Type a query" in texts(app)
    assert app.button(key="export.open").disabled and not app.button(key="share.open").disabled
    app.button(key="snapshots.open").click().run()
    assert app.button(key="snapshot.save").disabled and not app.exception
