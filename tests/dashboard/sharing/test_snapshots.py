"""Snapshots and exports: results are kept as they were, for everybody and not as markup."""

import csv
import io
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dashboard.services import corpora
from dashboard.services.source import Loaded, Source
from dashboard.session.query import Question
from dashboard.sharing import snapshots
from dashboard.sharing.dialogs import EXPORT, LINK, REPORT, VIEWS
from dashboard.sharing.export_results import (
    DecoderResult,
    compute_results,
    format_figures_csv,
    format_sets_csv,
    format_sets_json,
)
from dashboard.sharing.snapshots import SavedAnswer
from engine.data import cache
from engine.decoder import Decoder
from engine.errors import DataError
from engine.evaluation.export_decoder import EXPORT_TARGETS
from engine.evaluation.tables import unguard_formula
from engine.paths import home
from engine.stages import make, methods
from engine.values import digest_of
from support import pages


@pytest.fixture
def empty():
    """A FRONTIER_HOME with nothing saved."""

    def forget():
        for file in (home() / "snapshots").glob("*"):
            file.unlink()

    forget()
    yield home()
    forget()


def snapshot(name="one", documents=("a", "b", "c"), **fields):
    answer = SavedAnswer("MMR", "mmr(…)", tuple((d, d.upper()) for d in documents), {"ILAD@3": 0.25, "Recall@3": None})
    defaults = {
        "state": {"v": "1", "k": "3"}, "corpus": "pets", "digest": "d1", "vectors": "v1", "encoder": "bundled",
        "query": "q", "answers": {"mmr": answer},
    }  # fmt: skip
    return snapshots.make_snapshot(name, **defaults | fields)


def test_snapshot_is_saved_read_renamed_and_deleted(empty):
    saved = snapshots.save(snapshot("été 中文"))
    assert snapshots.read_snapshots() == ([saved], []) and saved.name == "été 中文" and saved.frontier
    file = empty / "snapshots" / f"{saved.id}.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in whole.items() if name != "seal"}))
    assert snapshots.read_snapshots()[0] == [] and "not a saved view, or damaged" in snapshots.read_snapshots()[1][0]
    file.write_text(json.dumps(whole))
    renamed = snapshots.rename_snapshot(saved.id, "winter")
    assert snapshots.read_snapshots()[0] == [replace(saved, name="winter")] == [renamed]
    snapshots.delete_snapshot(saved.id)
    snapshots.delete_snapshot(saved.id)
    assert snapshots.read_snapshots() == ([], [])
    with pytest.raises(DataError, match="deleted in the meantime"):
        snapshots.rename_snapshot(saved.id, "again")


@pytest.mark.parametrize(
    "name,clean",
    [
        ("../../etc/passwd", "../../etc/passwd"),
        ("a\nb\0c\x1b[31m", "a b c [31m"),
        ("x" * 500, "x" * 80),
        ("\ud83d!", "?!"),
    ],
)
def test_snapshot_names_are_cleaned_and_name_no_file(empty, name, clean):
    saved = snapshots.save(snapshot(name))
    assert saved.name == clean
    assert [p.name for p in (empty / "snapshots").iterdir()] == [f"{saved.id}.json"]


def test_snapshot_names_are_required_and_made_unique(empty):
    with pytest.raises(DataError, match="needs a name"):
        snapshot(" \n\t\0")
    assert [snapshots.save(snapshot("a")).name for _ in range(3)] == ["a", "a (2)", "a (3)"]
    with pytest.raises(DataError, match="no snapshot"):
        snapshots.delete_snapshot("../settings")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"name": "x"}', b'{"seal": "x"}', b"\xff\xfe", b"[" * 100_000],
)
def test_damaged_file_is_reported_and_hides_no_other(empty, content):
    saved = snapshots.save(snapshot())
    (empty / "snapshots" / f"{'0' * 32}.json").write_bytes(content)
    (empty / "snapshots" / "notes.json").write_text("somebody's own")
    readable, broken = snapshots.read_snapshots()
    assert readable == [saved] and len(broken) == 1 and broken[0].startswith("000")


@pytest.mark.parametrize(
    "field,value", [("name", 3), ("query", None), ("answers", []), ("state", {"k": 3}), ("made", 1)]
)
def test_file_with_a_field_of_another_type_is_refused(empty, field, value):
    saved = snapshots.save(snapshot())
    file = empty / "snapshots" / f"{saved.id}.json"
    content = json.loads(file.read_text()) | {field: value}
    del content["seal"]
    content["seal"] = digest_of([json.dumps(content, sort_keys=True)])
    file.write_text(json.dumps(content))
    assert snapshots.read_snapshots()[0] == [] and len(snapshots.read_snapshots()[1]) == 1


@pytest.mark.threat("a saved view with a figure that no table can hold", "listed as damaged, beside the others")
@pytest.mark.parametrize("figure", [10**400, -(10**400), float("nan"), "0.5"], ids=["huge", "low", "nan", "text"])
def test_view_with_a_figure_that_is_none_is_refused(empty, figure):
    saved = snapshots.save(snapshot())
    file = empty / "snapshots" / f"{saved.id}.json"
    content = json.loads(file.read_text())
    del content["seal"]
    for answer in content["answers"].values():
        answer["figures"] = {"ILAD@3": figure}
    content["seal"] = digest_of([json.dumps(content, sort_keys=True)])
    file.write_text(json.dumps(content))
    readable, (broken,) = snapshots.read_snapshots()
    assert readable == [] and broken.startswith(saved.id)


def test_threads_save_rename_and_delete_at_once(empty):
    def work(who):
        for i in range(8):
            mine = snapshots.save(snapshot(f"{who}-{i}"))
            snapshots.read_snapshots()
            snapshots.rename_snapshot(mine.id, f"{who}-{i}-renamed")
            if i % 2:
                snapshots.delete_snapshot(mine.id)

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, "abcd"))  # raises what any of them raised
    readable, broken = snapshots.read_snapshots()
    left = {f"{who}-{i}-renamed" for who in "abcd" for i in range(0, 8, 2)}
    assert not broken and len(readable) == len(left) and {s.name for s in readable} == left


def test_clearing_the_cache_leaves_snapshots(empty):
    cache.put("scratch", "a", b"1")
    saved = snapshots.save(snapshot())
    assert snapshots.SNAPSHOTS_FOLDER not in [folder.name for folder in cache.list_sections()]
    cache.clear("scratch")
    assert snapshots.read_snapshots()[0] == [saved]


def test_two_snapshots_differ_in_settings_metrics_sets_and_corpus():
    first = snapshot("one", state={"v": "1", "k": "3", "text": "x"})
    changed = SavedAnswer("MMR", "mmr", (("c", "C"), ("d", "D")), {"ILAD@3": 0.75, "nDCG@3": 0.5})
    second = snapshot("two", state={"v": "1", "k": "5"}, answers={"mmr": changed, "dpp": replace(changed, title="DPP")})
    assert snapshots.compare_settings(first, second) == [("k", "3", "5"), ("text", "x", "–")]
    assert snapshots.compare_metrics(first, second) == [
        ("MMR", "ILAD@3", 0.25, 0.75, 0.5),
        ("MMR", "Recall@3", None, None, None),
        ("MMR", "nDCG@3", None, 0.5, None),
        ("DPP", "ILAD@3", None, 0.75, None),
        ("DPP", "nDCG@3", None, 0.5, None),
    ]
    rows = snapshots.compare_sets(first.answers["mmr"], changed)
    assert rows == [
        ("c", "C", 3, 1, "both"),
        ("a", "A", 1, None, "older only"),
        ("b", "B", 2, None, "older only"),
        ("d", "D", None, 2, "newer only"),
    ]
    assert snapshots.describe_difference(first, second) is None
    assert "different corpora" in snapshots.describe_difference(first, replace(second, digest="other"))
    assert "other vectors" in snapshots.describe_difference(first, replace(second, vectors="other"))


def page():
    """What a dialog holds, as a page without the rest."""
    import streamlit as st

    from dashboard import frame
    from dashboard.sharing import dialogs

    loaded, question = frame.draw_header()
    getattr(dialogs, st.session_state["inside"])(loaded, question)


def inside(dialog, **session):
    pages.load()
    return pages.draw_page(page, **{"inside": dialog, "source": pages.DEMO, **session})


def save_page(app, name):
    """Save a snapshot in the dialog; returns it, None where it was refused."""
    app.text_input(key="snapshot.name").set_value(name)
    pages.press(app, "snapshot.save")
    return next((s for s in snapshots.read_snapshots()[0] if s.name == name), None)


def opened_again(saved):
    """The page after a snapshot was opened."""
    app = inside("draw_snapshots")
    app.selectbox(key="snapshot.picked").set_value(saved.id).run()
    return pages.press(app, "snapshot.open")


def test_dialog_saves_compares_and_opens_snapshots(empty):
    app = inside("draw_snapshots")
    assert "No saved views yet" in pages.texts(app)
    assert (
        save_page(app, " ") is None and "needs a name" in pages.texts(app) and not list((empty / "snapshots").glob("*"))
    )
    first = save_page(app, "first")
    assert "Saved: first" in pages.texts(app) and app.text_input(key="snapshot.name").value == ""
    assert list(first.answers) == list(methods("selector"))[:2] and all(
        len(a.documents) == 10 for a in first.answers.values()
    )

    moved = {"k": 4, "explore.mmr.relevance_weight": 0.3}
    shown = pages.screen("explore", **moved)
    recall, ilad = pages.figures(shown, "Recall@4"), pages.figures(shown, "ILAD@4")
    app = inside("draw_snapshots", **moved)
    second = save_page(app, "second")
    assert [a.figures["ILAD@4"] for a in second.answers.values()] == pytest.approx(ilad, abs=2e-5)
    assert [a.figures["Recall@4"] for a in second.answers.values()] == recall
    assert second.answers["mmr"].words == "MMR · λ 0.3" and ("MMR", "relevance_weight", "λ", "0.3", "0.8") in (
        second.answers["mmr"].parameters
    )
    table = next(t.value for t in app.dataframe if "Symbol" in t.value)
    assert list(table.iloc[0]) == ["MMR", "MMR", "relevance_weight", "λ", "0.3", "0.8"] and "k = 4" in pages.texts(app)
    assert "Open restores the corpus, the query, k, the pool and 2 decoders." in pages.texts(app)
    assert second.answers["top_k"].documents == first.answers["top_k"].documents[:4]
    assert second.answers["mmr"].documents != first.answers["mmr"].documents[:4]
    app.selectbox(key="snapshot.other").set_value(first.id)
    pages.run(app)
    tables = {tuple(t.value.columns): t.value for t in app.dataframe}
    differing = next(t for c, t in tables.items() if c[0] == "Setting")
    assert set(differing["Setting"]) == {"k", "mmr.relevance_weight"}
    assert any(c[-1] == "Difference" for c in tables) and any(c[-1] == "Where" for c in tables)
    assert " in both, " in pages.texts(app)

    app = opened_again(second)
    assert app.slider(key="k").value == 4
    assert app.session_state["explore.mmr.relevance_weight"] == 0.3 and not app.warning


def test_snapshot_of_another_corpus_opens_only_where_that_is_loaded(empty, tmp_path):
    pets = pages.csv_source(tmp_path / "pets.csv", pages.PETS)
    pages.load(pets)
    saved = save_page(inside("draw_snapshots", source=pets, link={"v": "1", "text": "a pet", "k": "2"}), "pets")
    app = opened_again(saved)
    assert app.session_state["source"] == pets and app.slider(key="k").value == 2
    corpora.drop_load(pets, corpora.find_loading_job(pets))
    app = opened_again(saved)
    assert "not loaded here" in pages.texts(app) and saved.vectors[:8] in pages.texts(app)


def test_dialog_renames_and_deletes_snapshots(empty):
    saved = snapshots.save(snapshot("old"))
    app = inside("draw_snapshots")
    app.text_input(key="snapshot.rename").set_value("new")
    pages.press(app, "snapshot.renamed")
    assert [s.name for s in snapshots.read_snapshots()[0]] == ["new"]
    snapshots.delete_snapshot(saved.id)  # by somebody else
    app.text_input(key="snapshot.rename").set_value("newer")
    assert "deleted in the meantime" in pages.texts(pages.press(app, "snapshot.renamed"))
    snapshots.save(snapshot("last"))
    assert (
        "Deleted: last" in pages.texts(pages.press(pages.run(app), "snapshot.deleted"))
        and snapshots.read_snapshots()[0] == []
    )


def test_hostile_snapshot_is_never_markup(empty):
    evil = "![x](http://192.0.2.1/x.png) $x$ <img src=x>"
    odd = SavedAnswer(evil, evil, ((evil, evil),), {evil: 1.0})
    for name in ("Setting", evil):
        snapshots.save(snapshot(name, corpus=evil, query=evil, encoder=evil, vectors=name, answers={"mmr": odd}))
    first, second = snapshots.read_snapshots()[0]
    app = inside("draw_snapshots")
    app.selectbox(key="snapshot.picked").set_value(first.id).run()
    app.selectbox(key="snapshot.other").set_value(second.id)
    assert evil in pages.texts(pages.run(app)) and "other vectors" in pages.texts(app)
    pages.assert_plain(app, "192.0.2.1")


@pytest.mark.deep
def test_export_dialog_shows_every_target_and_names_the_impossible():
    app = inside("draw_export", decoders=["top_k", "mmr", "nnn"], k=5, **{"explore.mmr.relevance_weight": 0.25})
    app.selectbox(key="export.decoder").set_value("mmr")
    shown = " ".join(c.value for c in pages.run(app).code)
    assert len(app.code) == len(EXPORT_TARGETS)
    assert '"lambda_mult": 0.25' in shown and "diversity=0.75" in shown and "k=5" in shown
    app.selectbox(key="export.decoder").set_value("nnn")
    assert "cannot express this decoder" in pages.texts(pages.run(app))
    assert "Choose a decoder on Explore" in pages.texts(inside("draw_export", decoders=[]))


def test_buttons_open_their_dialogs_which_stay_when_the_page_is_drawn_anew(empty):
    snapshots.save(snapshot("one", state={"v": "1", "corpus": "numpy-api", "k": "3"}))
    app = pages.screen("explore")
    for option, text in (
        (LINK, "Opens this page"),
        (EXPORT, "2 decoders"),
        (REPORT, "is measured in this session"),
        (VIEWS, "Open restores"),
    ):
        assert text in pages.texts(pages.choose_from_menu(app, option)) and text in pages.texts(pages.run(app))
    shown = pages.press(app, "snapshot.open")
    assert "Open restores" not in pages.texts(shown) and shown.slider(key="k").value == 3


def test_export_files_hold_sets_and_metrics(demo):
    dataset, space = demo
    split, qrels = next(iter(dataset.qrels.items()))
    query = dataset.judged(split).ids[0]
    loaded = Loaded(source=Source("numpy-api"), dataset=dataset, space=space, queries=None)
    question = Question(query, 'a question, "quoted"\nand long', space.embeddings.vectors[5], qrels, 4, None)
    results = compute_results(loaded, question, {n: Decoder(make(n)) for n in ("top_k", "mmr")})
    rows = list(csv.DictReader(io.StringIO(format_sets_csv(results).decode())))
    assert [r["id"] for r in rows if r["decoder"] == "top_k"] == [r.id for r in results[0].rows] and len(rows) == 8
    assert {r["relevant_from"] for r in rows} == {"1"}
    assert rows[0]["id"] == dataset.corpus.ids[5] and rows[0]["similarity"] == "" and rows[0]["rank"] == "1"
    named = {
        (r["decoder"], r["metric"]): r["value"]
        for r in csv.DictReader(io.StringIO(format_figures_csv(results).decode()))
    }
    assert float(named["mmr", "ILAD@4"]) == results[1].figures["ILAD@4"]
    content = json.loads(format_sets_json(results, {"v": "1"}, query=question.text, k=4, corpus="numpy-api"))
    told = {"stage": "MMR", "name": "relevance_weight", "symbol": "λ", "value": "0.8", "default": "0.8"}
    assert told in content["decoders"][1]["parameters"] and content["decoders"][1]["words"] == "MMR · λ 0.8"
    assert (content["k"], content["corpus"]) == (4, "numpy-api")
    assert content["query"] == question.text and [len(d["documents"]) for d in content["decoders"]] == [4, 4]
    assert content["decoders"][0]["documents"][0]["title"] == dataset.corpus.titles[5]


@pytest.mark.threat("formulas in exported sets", "an apostrophe before each, numbers as they are, JSON exact")
def test_no_cell_of_exported_sets_is_a_formula():
    evil = ["=HYPERLINK(A1)", "+1", "-2", "@SUM(A1)", "\t=1", "\r=1", ' "=1', "＝1", "plain"]
    row = {"rank": 1, "row": 0, "relevant": None, "relevance": -0.5, "cosine": 0.5, "gain": -1.5}
    row |= {"similarity": None, "nearest": None}
    rows = tuple(SimpleNamespace(**row, id=text, title=text, text=text) for text in evil)
    parameters = (("=stage", "name", "symbol", "1", "1"),)
    result = DecoderResult(
        name="=name", title="x", setting="@set", words="w", parameters=parameters, rows=rows, figures={"=m": -0.25},
        relevant_from=None,
    )  # fmt: skip
    for made in (format_sets_csv([result]), format_figures_csv([result])):
        table = list(csv.reader(io.StringIO(made.decode(), newline="")))
        cells = [cell for line in table for cell in line if cell]
        assert all(not cell.lstrip(' "').startswith(tuple("=+-@\t\r＝")) or float(cell) < 0 for cell in cells), cells
    lines = list(csv.DictReader(io.StringIO(format_sets_csv([result]).decode(), newline="")))
    assert [unguard_formula(line["id"]) for line in lines] == evil and {line["gain"] for line in lines} == {"-1.5"}
    told = json.loads(format_sets_json([result], {}))["decoders"][0]["documents"]
    assert [document["text"] for document in told] == evil


def test_export_and_saving_are_disabled_without_a_query():
    app = pages.open_by_link({"v": "1", "corpus": "numpy-api", "text": ""})
    assert "Type a query" in pages.texts(app)
    assert EXPORT not in app.menu_button(key="header.share").options
    assert pages.choose_from_menu(app, VIEWS).button(key="snapshot.save").disabled
