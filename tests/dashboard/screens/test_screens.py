"""The screens without a browser: they draw, they answer, they teach when there is nothing to show."""

from dataclasses import replace

import pytest

import engine
from dashboard.data import loading
from dashboard.services import corpora
from dashboard.services.source import Source
from support import pages
from support.demo import demo_counts
from support.draws import deepen
from support.patience import patient

SELECTORS = list(engine.methods("selector"))


def test_explore_shows_every_method_and_its_parameters():
    specs = list(engine.methods("selector").values())[:3]
    app = pages.screen("explore", decoders=[spec.name for spec in specs])
    keys = {f"explore.{spec.name}.{p.name}" for spec in specs for p in spec.params}
    on_tiles = {f"explore.{name}.{s['param']}" for name, tile in pages.tiles(app).items() for s in tile["sliders"]}
    assert len(pages.figures(app, "Recall@10")) == 3 == len(pages.sets(app))
    # A value has one control: the tile's, and the popover's only in a view without tiles.
    assert on_tiles and keys & pages.widgets(app) == keys - on_tiles
    assert "λ: by the sliders of the tiles" in pages.texts(app)
    pages.pick(app, "View", "Check-up")
    assert keys <= pages.widgets(app) and "by the sliders" not in pages.texts(app)


def test_parameters_show_where_they_count_and_change_their_form():
    app = pages.screen("explore", decoders=["top_k", "nnn"])
    assert "explore.nnn.iterations" not in pages.widgets(app)
    app.selectbox(key="explore.nnn.solver").set_value("fista").run()
    assert "explore.nnn.iterations" in pages.widgets(app) and "after 50 steps" in pages.notes(app)["nnn"]
    app.selectbox(key="explore.nnn.scale").set_value("support").run()
    app.selectbox(key="explore.nnn.solver").set_value("exact").run()
    app.session_state["explore.nnn.l1.support"] = 4
    pages.run(app)
    assert not app.exception and len(pages.sets(app)[1]) == 4


def test_a_preset_sets_its_parameters_and_the_plain_scale():
    app = pages.screen("explore", decoders=["top_k", "nnn"])
    app.selectbox(key="explore.nnn.scale").set_value("relative").run()
    assert pages.press(app, "explore.nnn.L2").session_state["explore.nnn.l1"] == 0
    assert app.selectbox(key="explore.nnn.scale").value == "absolute"
    assert pages.press(app, "explore.nnn.L1").session_state["explore.nnn.l2"] == 0


def test_a_setting_without_an_answer_says_why():
    app = pages.screen("explore", decoders=["top_k", "nnn"])
    app.session_state["explore.nnn.l1"] = 1.0
    pages.run(app)
    assert not app.exception and "no document gets a weight" in pages.notes(app)["nnn"]
    assert pages.sets(app)[1] == [] and pages.tiles(app)["nnn"]["set"].diversity() is None


def test_the_weights_view_shows_the_path_and_leads_to_the_steps(monkeypatch):
    app = pages.screen("explore", decoders=["mmr", "nnn"])
    assert (
        len(pages.sets(app)) == 2 and pages.baseline(app) == pages.sets(pages.screen("explore", decoders=["top_k"]))[0]
    )
    assert not any(tile["baseline"] for tile in pages.tiles(app).values()), "what is compared with needs no tile"
    pages.pick(app, "View", "NNN weights")
    assert not pages.sets(app)
    assert "linear segments" in pages.texts(app) and "step is 1/L" not in pages.texts(app)
    opened = []
    monkeypatch.setattr("streamlit.switch_page", opened.append)
    app = pages.press(app, "steps.start")
    assert opened == ["screens/theory.py"] and app.session_state["theory.view"] == "Exact vs 50 steps"
    assert app.session_state["theory.group"] == "Search"


def test_without_a_decoder_that_weighs_the_weights_view_adds_one():
    app = pages.pick(pages.screen("explore", decoders=["top_k", "mmr"]), "View", "NNN weights")
    assert "NNN gives each document a weight" in pages.texts(app)
    app = pages.press(app, "weights.add.nnn")
    assert app.session_state["decoders"] == ["top_k", "mmr", "nnn"] and "gives each" not in pages.texts(app)


@pytest.mark.parametrize("count", deepen([1, 5, len(SELECTORS)], [5]))
def test_every_view_draws_with_every_number_of_decoders(count):
    from dashboard.explore.page import VIEWS

    app = pages.screen("explore", decoders=SELECTORS[-count:])
    for view in reversed(VIEWS):
        pages.pick(app, "View", view)
    assert len(pages.sets(app)) == len(pages.figures(app, "ILAD@10")) == count


def test_the_slider_trades_relevance_for_diversity():
    app = pages.screen("explore")
    before = pages.figures(app, "ILAD@10")
    app.session_state["explore.mmr.relevance_weight"] = 0.0
    pages.run(app)
    after = pages.figures(app, "ILAD@10")
    assert after[0] == before[0] and after[1] > before[1]
    app.session_state["explore.mmr.relevance_weight"] = 1.0
    pages.run(app)
    assert pages.figures(app, "ILAD@10")[1] == before[0]
    top, other = pages.sets(app)
    assert other == top


def test_k_and_pool_reach_the_engine():
    app = pages.screen("explore")
    app.slider(key="k").set_value(4).run()
    app.number_input(key="pool").set_value(4).run()
    found = [set(documents) for documents in pages.sets(app)]
    assert found[0] == found[1] and len(found[0]) == 4, "a pool of k leaves nothing to choose"


def test_own_words_have_no_recall_and_say_so():
    app = pages.screen("explore")
    assert "Type a query" in pages.texts(pages.pick(app, "Query", "Typed")) and not pages.tiles(app)
    next(a for a in app.text_input if a.label == "Your query").set_value("median of an array").run()
    assert not app.exception and not pages.figures(app, "Recall@10") and all(pages.figures(app, "ILAD@10"))
    assert not any(tile["now"]["right"] for tile in pages.tiles(app).values())


def test_document_text_is_never_markup(table):
    """Nothing of a document is drawn by an element that interprets it."""
    app = pages.screen("explore", Source(str(table)))
    pages.pick(app, "Query", "Similar")
    document = next(i for i in app.text_input if i.label == "Document id")
    hostile = {"007": "<img src=x", "NA": "![x](http", " 1e5": "$x^2$"}
    for ident, text in hostile.items():
        document.set_value(ident).run()
        assert not app.exception
        names = [name for documents in pages.sets(app) for name in documents]
        # The document itself is left out of its answers; the others are in them.
        for other, other_text in hostile.items():
            assert any(other_text in name for name in names) == (other != ident)
        for kind in (app.markdown, app.caption, app.info, app.warning, app.error):
            assert not any(text in element.value for element in kind)


def test_an_edited_file_is_read_again(tmp_path):
    file, rows = tmp_path / "things.csv", [(1, "an apple"), (2, "a pear")]
    source = pages.csv_source(file, rows)
    app = pages.screen("data", source, **{"data.way": "Path", "data.path": str(file)})
    assert "2 documents · 0 queries" in pages.texts(app)
    pages.csv_source(file, [*rows, (3, "a car")])
    pages.press(app, "data.reload")
    pages.load(source)
    app.run()
    assert "3 documents · 0 queries" in pages.texts(app)


def test_an_address_opens_only_what_this_server_has_loaded(table):
    pages.load(Source(str(table)))
    for requested, path in ((str(table), str(table)), ("/etc/passwd", "numpy-api"), ("", "numpy-api")):
        assert pages.open_by_link({"corpus": requested}, "data").session_state["source"].path == path


def test_a_crowd_of_missed_documents_is_counted(tmp_path):
    documents = [(f"d{i}", f"animal {i}") for i in range(40)]
    pages.beir(tmp_path, documents, [("q", "animals")], test=[("q", ident) for ident, _ in documents])
    app = pages.screen("explore", Source(str(tmp_path)))
    data = pages.component(app, "explore.lists")
    assert len(data["relevant"]) == len(documents) and (data["max_missed"], data["n_unsent"]) == (6, 0)
    assert all("relevance rank" in name for _, name in data["relevant"])


def test_a_pool_smaller_than_k_is_explained():
    app = pages.screen("explore")
    app.number_input(key="pool").set_value(3).run()
    assert "The pool of 3 is smaller than k, 10" in pages.texts(app) and [len(s) for s in pages.sets(app)] == [3, 3]


def test_a_query_document_that_does_not_exist_is_said():
    app = pages.screen("explore")
    pages.pick(app, "Query", "Similar")
    next(i for i in app.text_input if i.label == "Document id").set_value("no such id").run()
    assert not app.exception and "No document has this id" in pages.texts(app)


def test_lone_surrogates_are_shown_as_escapes(tmp_path):
    """Legal in JSON, kept byte for byte in the engine, and no text that a browser could be sent."""
    file = tmp_path / "odd.jsonl"
    file.write_bytes(b'{"_id": "a\\ud83d", "text": "hello \\ud83d world"}\n{"_id": "b", "text": "fine"}\n')
    app = pages.screen("explore", Source(str(file)))
    pages.pick(app, "Query", "Similar")
    assert not app.exception
    next(i for i in app.text_input if i.label == "Document id").set_value("b").run()
    assert not app.exception and "hello \\ud83d world" in pages.sets(app)[0]
    assert not pages.screen("data", **{"data.way": "Path", "data.path": str(file)}).exception


def test_no_decoder_chosen_teaches():
    app = pages.screen("explore", decoders=[])
    assert "Choose a decoder" in pages.texts(app) and not pages.sets(app)


def test_data_reports_the_corpus_in_use():
    app = pages.screen("data")
    counts = next(text.value.split("\n")[0] for text in app.text if " queries" in text.value)
    assert counts.endswith(f" documents · {demo_counts()['queries']} queries")
    assert 600 <= int(counts.split()[0]) <= 1000
    assert loading.RELEVANT_KEY not in pages.widgets(app), "all of its judgements have one grade"


def test_data_previews_and_maps_a_table(table):
    app = pages.screen("data", **{"data.way": "Path", "data.path": str(table)})
    assert list(app.dataframe[0].value["id"]) == ["007", "NA", " 1e5"]
    assert app.selectbox(key=f"data.columns.{table}.text").value == "text"
    app.button(key="data.load").click().run()
    corpora.get_loading_job(Source(str(table), columns=("id", "text", None))).join(patient(60))
    app.run()
    assert app.session_state["source"].path == str(table)


def test_data_keeps_the_columns_that_are_chosen(tmp_path):
    file = tmp_path / "films.csv"
    file.write_text("id,text,year\n1,a cat,1999\n2,a dog,2001\n")
    app = pages.screen("data", **{"data.way": "Path", "data.path": str(file)})
    app.multiselect(key=f"data.columns.{file}.metadata").set_value(["year"]).run()
    app.button(key="data.load").click().run()
    source = Source(str(file), columns=("id", "text", None), metadata=("year",))
    corpora.get_loading_job(source).join(patient(60))
    app.run()
    assert app.session_state["source"] == source
    assert corpora.find_loading_job(source).result.space.corpus.metadata == {"year": ("1999", "2001")}
    # The same documents are in memory without it, and their texts are shared.
    plain = replace(source, metadata=())
    corpora.get_loading_job(plain).join(patient(60))
    first, second = (corpora.find_loading_job(s).result.space.corpus for s in (source, plain))
    assert first.texts is second.texts and not second.metadata


@pytest.mark.parametrize(
    "content,message",
    [
        (b"id,text\n1,caf\xe9\n", "byte"),
        (b"id,text\n1,a\n1,b\n", "line 3: line 2 has the id '1' already"),
        (b"", "empty"),
        (b"id,text,text\n1,a,b\n", "2 columns called 'text'"),
    ],
)
def test_data_explains_what_cannot_be_read_before_it_is_loaded(tmp_path, content, message):
    file = tmp_path / "bad.csv"
    file.write_bytes(content)
    app = pages.screen("data", **{"data.way": "Path", "data.path": str(file)})
    assert not app.exception and message in pages.texts(app), pages.texts(app)
    assert str(tmp_path) not in pages.texts(app) and not [b for b in app.button if b.key == "data.load"]


def test_data_counts_copies_and_asks_what_becomes_of_repeated_ids(tmp_path):
    file = tmp_path / "shop.csv"
    file.write_text("Doc ID;text;department\n1;a cat;pets\n1;a dog;pets\n2;a cat;toys\n3;;toys\n")
    app = pages.screen("data", **{"data.way": "Path", "data.path": str(file)})
    assert app.selectbox(key=f"data.separator.{file}").value == ";"
    assert app.selectbox(key=f"data.columns.{file}.id").value == "Doc ID"
    assert "shop.csv line 3: line 2 has the id '1' already (1 row repeats an id)" in pages.texts(app)
    app.multiselect(key=f"data.columns.{file}.metadata").set_value(["department"]).run()
    pages.pick(app, "Repeated ids", "number")
    assert "4 documents" in pages.texts(app) and "1 document is a copy" in pages.texts(app)
    pages.pick(app, "Repeated ids", "first")
    shown = pages.texts(app)
    assert "3 documents" in shown and "1 row was left out" in shown and "1 document has neither" in shown
    source = Source(str(file), columns=("Doc ID", "text", None), metadata=("department",), repeated="first")
    pages.press(app, "data.load")
    corpora.get_loading_job(source).join(patient(60))
    pages.run(app)
    assert app.session_state["source"] == source
    assert pages.load(source).dataset.corpus.metadata == {"department": ("pets", "toys", "toys")}
    assert pages.open_by_link(dict(app.query_params), "data").session_state["source"] == source, (
        "the address keeps the choice"
    )


def test_documents_can_be_chosen_by_a_kept_column(tmp_path):
    file = tmp_path / "shop.csv"
    file.write_text("id,text,team\n1,a cat,pets\n2,a dog,pets\n3,a car,x=y\n")
    app = pages.screen("data", **{"data.way": "Path", "data.path": str(file)})
    app.multiselect(key=f"data.columns.{file}.metadata").set_value(["team"]).run()
    app.multiselect(key=f"data.where.{file}.team").set_value(["x=y"]).run()
    assert "1 document" in pages.texts(app) and "2 documents were left out by team" in pages.texts(app)
    pages.press(app, "data.load")
    source = Source(str(file), columns=("id", "text", None), metadata=("team",), where=(("team", "x=y"),))
    assert pages.load(source).dataset.corpus.ids == ("3",)
    pages.run(app)
    assert pages.open_by_link(dict(app.query_params), "data").session_state["source"] == source


def test_another_separator_can_be_chosen_and_large_files_are_left_for_loading(tmp_path, monkeypatch):
    file = tmp_path / "odd.csv"
    file.write_text("id;text,more\n1;x,y\n1;z,w\n")
    monkeypatch.setattr("dashboard.services.corpora.MAX_INSPECTED_BYTES", 10)
    app = pages.screen("data", **{"data.way": "Path", "data.path": str(file)})
    app.selectbox(key=f"data.separator.{file}").set_value(";").run()
    assert app.selectbox(key=f"data.columns.{file}.text").value == "text,more"
    pages.pick(app, "Repeated ids", "first")
    pages.press(app, "data.load")
    source = Source(str(file), columns=("id", "text,more", None), separator=";", repeated="first")
    assert pages.load(source).dataset.corpus.texts == ("x,y",)


def test_columns_of_a_beir_folder_are_kept_where_named(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": "a cat", "metadata": {"year": 1999, "answer": "x"}}\n')
    app = pages.screen("data", **{"data.way": "Path", "data.path": str(folder)})
    kept = app.multiselect(key=f"data.columns.{folder}.metadata")
    assert kept.options == ["year", "answer"]
    kept.set_value(["year"]).run()
    pages.press(app, "data.load")
    assert pages.load(Source(str(folder), metadata=("year",))).dataset.corpus.metadata == {"year": ("1999",)}


def test_a_broken_beir_folder_is_explained(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "text": }\n')
    app = pages.screen("data", **{"data.way": "Path", "data.path": str(tmp_path)})
    assert not app.exception and "corpus.jsonl line 1" in pages.texts(app)


@pytest.mark.parametrize("path", ["x" * 300, "~nobody-of-this-name/x", "a\0b", "{}/none", "{}/" + "x" * 300])
def test_a_path_that_cannot_be_or_is_not_there_is_said(path, tmp_path):
    app = pages.screen("data", **{"data.way": "Path", "data.path": path.format(tmp_path)})
    assert app.error and ("no such file or folder" in pages.texts(app) or not path.endswith("none"))
