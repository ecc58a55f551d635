"""The live page as a text: what is in it, what is not, and that nothing in it acts by itself."""

import base64
import hashlib
import re
from pathlib import Path
from threading import Event

import pytest

import engine
from dashboard.components.bundle import bundle_scripts
from dashboard.live import page as page_module
from dashboard.live.page import LIVE_SCRIPT, LiveContent, build_live_page, embed_typeface, save_live_page
from engine.errors import Cancelled, DataError
from support import pages
from support.explore_parts import HOSTILE, corpus
from support.live_pages import K, Parts, build_toy, toy_content
from support.paths import ROOT

ENDS = ("</script><script>alert(1)</script>", "<!--<script>", "]]></style><img src=x onerror=alert(1)>")


@pytest.fixture(scope="module")
def hostile():
    """A page whose texts all try to be markup."""
    space = corpus().space
    vectors = engine.Embeddings(("q", "r"), space.vectors[:2], None, (ENDS[0] + HOSTILE[0], ENDS[1]))
    decoders = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr")]
    qrels = engine.Qrels({"q": {"id0": 1, "id9": 1}, "r": {"id3": 1}})
    content = LiveContent(space=space, queries=vectors, decoders=decoders, qrels=qrels, k=6, title=ENDS[2])
    return build_live_page(content)


@pytest.mark.threat(
    "texts of a corpus in a live page", "they stay texts: no element, no script and no request of theirs"
)
def test_hostile_texts_stay_texts(hostile):
    parts = Parts(hostile)
    assert [tag for tag, _ in parts.elements] == [
        "html", "head", "meta", "meta", "meta", "title", "style", "body", "header", "h1", "p", "p", "main", "noscript",
        "script", "script",
    ]  # fmt: skip
    assert not any({"src", "href", "onerror"} & set(attributes) for _, attributes in parts.elements)
    assert [query["text"] for query in parts.data["queries"]] == [ENDS[0] + HOSTILE[0], ENDS[1]]
    assert ENDS[2] in parts.texts
    assert {name for name in parts.data["names"].values()} & {f"{HOSTILE[1]} title 1", f"{HOSTILE[0]} document 0"}


@pytest.mark.threat("a live page is opened by strangers", "its policy admits one script, by its digest, and no request")
def test_policy_admits_the_script_and_nothing_else(hostile):
    parts = Parts(hostile)
    policy = next(attributes["content"] for tag, attributes in parts.elements if "http-equiv" in attributes)
    digest = base64.b64encode(hashlib.sha256(parts.scripts["module"].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    addresses = set(re.findall(r"https?://[^\s\"'`)]*", parts.scripts["module"]))
    assert addresses == {"http://www.w3.org/2000/svg"}, "the name of a namespace, which nobody fetches"


def test_other_queries_and_the_machine_are_not_in_it(tmp_path):
    documents = [(f"doc{i}", f"document number {i}") for i in range(12)]
    queries = [(f"secret-id-{i}", f"number {i} of secrets") for i in range(6)]
    pairs = [(f"secret-id-{i}", f"doc{i}") for i in range(6)]
    folder = pages.beir(tmp_path / "corpus of mine", documents, queries, test=pairs)
    dataset = engine.load_dataset(folder)
    space = engine.Space(dataset.corpus, engine.embed(dataset.corpus))
    judged = engine.embed_queries(space, dataset.judged("test"))
    decoders = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr")]
    content = {
        "space": space,
        "queries": judged.take([2]),
        "decoders": decoders,
        "qrels": dataset.qrels["test"],
        "k": 3,
    }
    size = save_live_page(tmp_path / "live.html", LiveContent(**content, judged=judged, split="test"))
    page = (tmp_path / "live.html").read_text(encoding="utf-8")
    assert size == len(page.encode()) and "number 2 of secrets" in page and "corpus of mine" in page
    assert Parts(page).data["frontier"]["notes"][0].startswith("Chosen on 6 queries of test")
    for text in ("secret-id", "number 1 of secrets", str(tmp_path), str(Path.home()) + "/", space.embeddings.digest):
        assert text not in page, text


def test_names_and_positions_of_sliders_are_stored_once():
    data = Parts(build_toy("top_k", "mmr", "dpp")).data
    assert len(data["queries"]) == 3 and len(data["answers"]) == 6 and len(data["stops"]) == 1
    for packed in data["answers"].values():
        assert "names" not in packed and packed["stops"] == 0
        assert all(data["names"][str(row)] for row in packed["rows"])
    assert data["queries"][0]["tiles"]["k"] == K


def test_a_second_slider_is_left_out():
    tile = Parts(build_toy("nnn")).data["queries"][0]["tiles"]["decoders"][0]
    assert [slider["param"] for slider in tile["sliders"]] == ["l1"] and not tile["baseline"]


@pytest.mark.parametrize("options", [{"qrels": None}, {"qrels": engine.Qrels({"other": {"d1": 1}})}, {"k": 1}])
def test_without_relevant_documents_or_pairs_of_them_there_is_no_frontier(options):
    data = Parts(build_toy(judged=None, **options)).data
    assert data["frontier"] is None and data["queries"][0]["tiles"]["judged"] == (12 if "k" in options else 0)


def test_a_corpus_of_one_document_has_a_page_without_a_frontier():
    space = engine.Space.of(["alone"], [[1.0, 0.0]], ["d"])
    queries = engine.Embeddings(("q",), [[0.6, 0.8]], None, ("words",))
    decoders = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr")]
    content = LiveContent(space=space, queries=queries, decoders=decoders, qrels=engine.Qrels({"q": {"d": 1}}))
    data = Parts(build_live_page(content)).data
    assert data["frontier"] is None and data["queries"][0]["tiles"]["judged"] == 1


def test_the_typeface_of_the_pages_comes_along_or_is_left_out(monkeypatch, tmp_path):
    assert '@font-face { font-family: "Source Sans"' in (style := embed_typeface()) and len(style) > 100_000
    monkeypatch.setattr(page_module, "files", lambda package: tmp_path)
    embed_typeface.cache_clear()
    assert embed_typeface() == "", "another version of Streamlit may have it elsewhere"
    embed_typeface.cache_clear()


def test_no_query_is_refused_and_a_stop_ends_it():
    with pytest.raises(DataError, match="queries must hold at least one query; got none"):
        build_toy(n_queries=0)
    stop, told = Event(), []
    with pytest.raises(Cancelled):
        build_live_page(toy_content(), progress=lambda *step: (told.append(step), stop.set()), stop=stop)
    assert told == [(1, 3, "queries at every λ")]


@pytest.mark.deep
def test_twenty_queries_of_four_decoders_are_under_two_megabytes(demo):
    dataset, space = demo
    judged = engine.embed_queries(space, dataset.judged("dev"))
    decoders = [engine.Decoder(engine.make(name)) for name in ("mmr", "dpp", "ssd", "facility_location")]
    content = LiveContent(
        space=space, queries=judged.take(range(20)), decoders=decoders, qrels=dataset.qrels["dev"], split="dev"
    )
    assert len(build_live_page(content).encode()) < 2_000_000


def test_the_page_of_the_readme_runs_these_scripts():
    """After a change to one: the README's command with `--live assets/live.html`."""
    page, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("assets/live.html", "README.md"))
    assert bundle_scripts(LIVE_SCRIPT) in page
    size = re.search(r"^# the demo: (\d+ queries × \d+ decoders), (.*) MB$", readme, re.MULTILINE)
    assert f"{size[1]}, k = 10" in page and float(size[2]) == round(len(page.encode()) / 1e6, 1)
