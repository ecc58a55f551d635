"""`frontier share`: its defaults, and what it refuses before anything is written."""

import pytest

from support.cli import run
from support.live_pages import Parts


def test_without_more_it_takes_the_demo_its_first_queries_and_explores_decoders(tmp_path, demo):
    dataset, _ = demo
    printed = run("share", "--live", str(tmp_path / "live.html"))
    assert "20 queries × 2 decoders; a browser opens it without a server or a network" in printed
    data = Parts((tmp_path / "live.html").read_text(encoding="utf-8")).data
    texts = [dataset.queries.texts[dataset.queries.position[query]] for query in dataset.judged("dev").ids[:20]]
    assert [query["text"] for query in data["queries"]] == texts
    assert [tile["title"] for tile in data["queries"][0]["tiles"]["decoders"]] == ["Top-k", "MMR"]
    assert data["frontier"]["notes"][0] == f"Chosen on {len(dataset.judged('dev'))} queries of dev."


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
