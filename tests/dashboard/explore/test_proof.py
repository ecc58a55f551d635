"""Explore over a corpus in a vector engine: asked for, said what is proven, and proved at a click."""

import numpy as np
import pytest

from dashboard.components import vendor
from dashboard.services import corpora
from dashboard.services.source import STORE_PREFIX, Source
from engine.data.stores import arrays
from engine.errors import DataError
from support.instances import problem
from support.packed import PackedPath
from support.pages import job_of, load, run, screen, tiles
from support.patience import patient

N = 1200


@pytest.fixture(scope="module")
def source(own_home, tmp_path_factory):
    """A file of vectors that the home's stores.toml names."""
    import os
    from pathlib import Path

    rows, _ = problem("clustered", 4, n=N, d=24, batch=1)
    path = own_home / "rows.npy"
    np.save(path, rows)
    home = Path(os.environ["FRONTIER_HOME"])
    (home / "stores.toml").write_text(f'[here]\nkind = "vectors"\n\n[here.rows]\npath = "{path}"\n')
    return Source(f"{STORE_PREFIX}here/rows")


def captions(app):
    return [caption.value for caption in app.caption]


def test_every_answer_says_that_it_is_proven_for_all_documents(source):
    app = screen("explore", source, decoders=["top_k", "mmr", "nnn"])
    assert f"Proven for all {N:,} documents: Top-k, MMR, NNN" in captions(app)
    assert all("Proven for all" in tile["note"] for name, tile in tiles(app).items())
    assert "Prove" not in [button.label for button in app.button]


def test_slider_of_an_engine_draws_from_its_pool_and_says_so(source):
    app = screen("explore", source, decoders=["top_k", "mmr"])
    told = next(s for s in tiles(app)["mmr"]["sliders"] if s["param"] == "relevance_weight")
    answers = vendor._ANSWERS[told["urls"][-1].removeprefix(f"{vendor.ANSWERS}/").removesuffix(".json")].answer()
    # The pool has 500 documents, of which one is the query.
    assert answers["within"] == "from the top 499"
    assert PackedPath(answers).rows_at(told["value"]) == tiles(app)["mmr"]["set"].rows()


def test_answers_by_an_index_are_proved_at_a_click(source, monkeypatch):
    exact = arrays.ArrayStore._search

    def lossy(self, points, sizes, wanted, where):
        hits, _, _ = exact(self, points, [2 * size for size in sizes], wanted, where)
        if wanted:
            return [h.first(size) for h, size in zip(hits, sizes, strict=True)], "scan", True
        odd = [arrays.Hits(h.ids[1::2], h.vectors[1::2], h.scores[1::2], h.places[1::2]) for h in hits]
        return [h.first(size) for h, size in zip(odd, sizes, strict=True)], "index", False

    monkeypatch.setattr(arrays.ArrayStore, "_search", lossy)
    corpora.drop_load(source, corpora.find_loading_job(source))
    load(source)
    app = screen("explore", source, decoders=["top_k", "mmr"])
    before = tiles(app)["top_k"]["set"].rows()
    assert "Not proven: Top-k, MMR" in captions(app)
    app.button(key="prove.start").click()
    run(app)
    job_of(app, "prove").join(patient(60))
    run(app)
    assert f"Proven for all {N:,} documents: Top-k, MMR" in captions(app)
    assert tiles(app)["top_k"]["set"].rows() != before


@pytest.mark.parametrize("page", ["tradeoff", "tune", "drift", "theory"])
def test_page_that_needs_all_documents_says_so(source, page):
    app = screen(page, source)
    assert any("needs all documents, and those of here/rows are in a vector engine" in info.value for info in app.info)


def test_data_opens_a_collection_of_the_file_of_stores(source):
    app = screen("data", source, **{"data.way": "Vector engine"})
    assert app.selectbox(key="data.store").options == ["here/rows"]
    assert app.button(key="data.load").label == "Opened" and app.button(key="data.reload").label == "Read again"
    assert any(f"{N:,} documents" in caption for caption in captions(app))


def test_address_names_the_store_and_no_more(source):
    app = screen("explore", source, decoders=["top_k"])
    app.session_state["k"] = 5
    run(app)
    assert app.query_params["corpus"] in ("store://here/rows", ["store://here/rows"])


def test_engine_that_is_gone_leaves_the_page_up_and_comes_back(source, monkeypatch):
    load(source)

    def gone(*_):
        raise DataError("here/rows does not answer: connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(arrays.ArrayStore, "_search", gone)
        # More than the pool that is at hand.
        app = screen("explore", source, decoders=["top_k"], k=450)
        assert [error.value for error in app.error] == ["here/rows does not answer."]
    app.button(key="explore.again").click()
    run(app)
    assert not app.error and len(tiles(app)["top_k"]["set"].rows()) == 450


def test_engine_whose_documents_change_is_asked_anew(source):
    reach = load(source).reach
    app = screen("explore", source, decoders=["top_k", "mmr"])
    first = reach.space.corpus.ids[tiles(app)["top_k"]["set"].rows()[0]]
    row = reach.store.position[first]
    reach.store.vectors = np.array(reach.store.vectors)
    reach.store.vectors[row] *= -1
    reach.store.version = "changed"
    app.session_state["explore.mmr.relevance_weight"] = 0.31
    run(app)
    shown = [reach.space.corpus.ids[at] for at in tiles(app)["top_k"]["set"].rows()]
    assert first not in shown and len(shown) == 10
