"""Two processes on one home, the cache cleared under those who use it, corpora given up while they are looked at."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from dashboard.services import corpora
from engine.data import cache, encoders, inventory
from engine.data.stores.load import load as load_into
from support.draws import deepen
from support.feedback import random_space
from support.pages import DEMO, beir_with_vectors, emit, fresh_corpora, load, run, screen, sets, texts, tiles
from support.patience import patient

SLOW = ["embed", "tune", "train", "store load"]


@pytest.mark.threat(
    "two processes that do the same in one home at once",
    "both end as one alone does, and all that either said to be kept is there",
)
@pytest.mark.parametrize("name", [*deepen(SLOW, SLOW), "sweep", "cache"])
def test_two_at_once_end_as_one_does(assailant, start_servers_of, tmp_path, name):
    start_servers_of(name)
    report = assailant.ask("pair", name, tmp_path / "of_both", False)
    assert report["other"] == [] and report["lost"] == 0 and report["there"] == report["kept"]


@pytest.mark.threat(
    "many who load the same collection into an engine at once",
    "each ends, and every row is there once: none waits for another that waits for it",
)
def test_many_who_load_one_collection_all_end(engines, tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    (tmp_path / "stores.toml").write_text(engines.pg.toml())
    space = random_space(40)
    for turn in range(2):
        with ThreadPoolExecutor(6) as threads:
            loads = [threads.submit(load_into, f"pg/at_once_{turn}", space.corpus, space.embeddings) for _ in range(6)]
        assert {load.result().count for load in loads} == {40}


@pytest.mark.threat(
    "the cache deleted again and again while two processes fill it",
    "both end as one alone does where nobody deletes",
)
@pytest.mark.parametrize("name", deepen(["embed", "cache"], ["embed"]))
def test_who_fills_the_cache_while_it_is_deleted_ends_as_ever(assailant, tmp_path, name):
    assert assailant.ask("pair", name, tmp_path / "of_both", True)["other"] == []


def read_answer(app):
    """Return the lists and the drawn data of each set."""
    return sets(app), [tile["now"] for tile in tiles(app).values()]


def move_slider(app, value, serial):
    committed = {"serial": serial, "values": {"mmr": {"relevance_weight": value}}}
    return emit(app, "explore.tiles", "committed", committed, once=False)


@pytest.mark.threat(
    "the whole cache deleted under a page that has its corpus loaded",
    "the page goes on answering, the same as before and what was not asked before, and the corpus loads again",
)
def test_a_page_whose_cache_is_deleted_goes_on_answering():
    app = screen("explore", DEMO, decoders=["top_k", "mmr"])
    first_answer, second_answer = read_answer(app), read_answer(move_slider(app, 0.3, 1))
    move_slider(app, 0.8, 2)
    cache.clear()
    inventory.remove_items(inventory.list_items())
    assert not [item for item in inventory.list_items() if item.section == encoders.EMBEDDING_SECTION]
    assert read_answer(run(app)) == first_answer
    assert read_answer(move_slider(app, 0.3, 3)) == second_answer
    new_answer = read_answer(move_slider(app, 0.55, 4))
    assert len(new_answer[0]) == 2 and new_answer != first_answer
    corpora.drop_load(DEMO, corpora.get_loading_job(DEMO))
    load()
    assert read_answer(move_slider(app, 0.8, 5)) == first_answer


@pytest.mark.threat(
    "a corpus given up by the server while a session looks at it",
    "the page loads it again or says that it does, and then shows what it had shown",
)
def test_a_corpus_given_up_while_it_is_looked_at_is_loaded_again(tmp_path, monkeypatch):
    fresh_corpora(monkeypatch)
    source = beir_with_vectors(tmp_path / "looked-at", dimension=16)
    app = screen("explore", source)
    first_answer = read_answer(app)
    for number in range(corpora.MAX_LOADED_CORPORA):
        load(beir_with_vectors(tmp_path / str(number), dimension=16))
    assert source not in corpora.list_sources(), "it was given up"
    run(app)
    loading = corpora.find_loading_job(source)
    assert loading is not None, "the page asked for it again"
    if loading.running:
        assert "oad" in texts(app) or not sets(app)
    loading.join(patient(60))
    assert read_answer(run(app)) == first_answer
