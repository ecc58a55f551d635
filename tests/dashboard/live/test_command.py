"""`frontier share`: its defaults, and what it refuses before anything is written."""

import pytest

import engine
from dashboard.services import confirmations
from dashboard.services.query_vectors import find_query_vectors
from dashboard.services.sweeps import SWEEPS_SECTION, Sweep
from dashboard.session.decoders import make_baseline
from engine.data import cache
from support import pages
from support.cli import run
from support.live_pages import Parts


def mmr_at_every_value():
    """Return MMR at each hundredth of λ, as exact curves name their settings."""
    return [engine.Decoder(engine.make("mmr", relevance_weight=value / 100)) for value in range(101)]


@pytest.mark.deep
def test_without_more_it_takes_the_demo_its_first_queries_and_explores_decoders(tmp_path, demo):
    dataset, _ = demo
    printed = run("share", "--live", str(tmp_path / "live.html"))
    assert "20 queries × 2 decoders; a browser opens it without a server or a network" in printed
    data = Parts((tmp_path / "live.html").read_text(encoding="utf-8")).data
    texts = [dataset.queries.texts[dataset.queries.position[query]] for query in dataset.judged("dev").ids[:20]]
    assert [query["text"] for query in data["queries"]] == texts
    assert [tile["title"] for tile in data["queries"][0]["tiles"]["decoders"]] == ["Top-k", "MMR"]
    assert data["frontier"]["notes"][0] == f"Chosen on {len(dataset.judged('dev'))} queries of dev."


@pytest.mark.deep
def test_outcome_of_a_choice_that_trade_off_was_asked_about_is_on_the_page(tmp_path, demo):
    cache.entry_path(SWEEPS_SECTION, confirmations.CONFIRMATIONS_FILE).unlink(missing_ok=True)
    file, flags = tmp_path / "live.html", ("--count", "1")

    def read_verdict():
        """Return the verdict of the page, and the labels of its choices at the budget that it opens with."""
        run("share", "--live", str(file), *flags)
        verdict = Parts(file.read_text(encoding="utf-8")).data["frontier"]["verdict"]
        position = round((verdict["budget"] - verdict["low"]) / verdict["step"])
        numbers = verdict["budgets"][position]["choices"]
        return verdict, [verdict["options"][number]["label"] for number in numbers if number is not None]

    verdict, labels = read_verdict()
    assert labels and not any(verdict["confirmations"]), "nobody has asked test"
    loaded = pages.load()
    queries = loaded.dataset.judged("test")
    by_label = {decoder.label: decoder for decoder in mmr_at_every_value()}
    decoders = [make_baseline(None), *map(by_label.__getitem__, labels)]
    sweep = Sweep(
        loaded=loaded, decoders=tuple(decoders), queries=queries, vectors=find_query_vectors(loaded, queries),
        qrels=loaded.dataset.qrels["test"], split="test", k=10, metrics=("recall", "ilad"),
    )  # fmt: skip
    confirmations.mark_confirmed(sweep)
    confirmed, same_labels = read_verdict()
    assert same_labels == labels
    outcomes = [box["text"] for box in confirmed["confirmations"] if box is not None]
    assert len(outcomes) == len(labels) and all(text.startswith("On test ") for text in outcomes)


def test_named_queries_decoders_and_size_are_taken(tmp_path, demo):
    dataset, _ = demo
    named = dataset.judged("test").ids[3]
    flags = (
        "--query-id",
        named,
        "--select",
        "vrsd",
        "--select",
        "mmr:relevance_weight=0.3",
        "-k",
        "4",
        "--split",
        "test",
    )
    run("share", "--live", str(tmp_path / "live.html"), *flags)
    data = Parts((tmp_path / "live.html").read_text(encoding="utf-8")).data
    (query,) = data["queries"]
    assert query["text"] == dataset.queries.texts[dataset.queries.position[named]] and query["tiles"]["k"] == 4
    vrsd, mmr = query["tiles"]["decoders"]
    assert vrsd["sliders"] == [] and mmr["sliders"][0]["value"] == 0.3 and query["tiles"]["base"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "Missing option '--live'"),
        (("--live", "none/live.html"), "must lie in a folder that exists"),
        (("--live", "live.html", "--select", "mrm"), "did you mean 'mmr'"),
        (("--live", "live.html", "--query-id", "nope"), "no query 'nope' in numpy-api"),
        (("--live", "live.html", "--split", "nope"), "no split 'nope'"),
        (("--live", "live.html", "--query-id", "a", "--count", "2"), "give --query-id or --count, not both"),
    ],
)
def test_what_cannot_be_shared_is_refused_and_nothing_is_written(tmp_path, monkeypatch, flags, words):
    monkeypatch.chdir(tmp_path)
    assert words in run("share", *flags, fails=True)
    assert not list(tmp_path.iterdir())
