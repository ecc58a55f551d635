import json

import pytest
from click.testing import CliRunner

import engine
from dashboard.serve import main
from engine.identification import families
from support.cli import run
from support.tiny_models import list_letters, tiny_encoder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A run of mmr at λ .4 from 20 documents of the demo, its setting, and another setting."""
    folder = tmp_path_factory.mktemp("identify")
    data = engine.load_dataset("numpy-api")
    space = engine.Space(data.corpus, engine.embed(data.corpus), "cpu")
    queries = data.judged("dev").sample(12)
    for name, weight in (("setting", 0.4), ("other", 0.9)):
        decoder = engine.Decoder(engine.make("mmr", relevance_weight=weight), depth=20)
        (folder / f"{name}.json").write_text(engine.export(decoder, "json").text, encoding="utf-8")
        ranking = engine.decode(decoder, space, engine.embed_queries(space, queries), 5)
        lists = {}
        for index, query_id in enumerate(queries.ids):
            lists[query_id] = [data.corpus.ids[row] for row in ranking.rows(index)]
        (folder / f"{name}-run.json").write_text(json.dumps(lists), encoding="utf-8")
    return folder


def test_identify_names_the_decoder_and_prints_json(files):
    flags = ("--run", str(files / "setting-run.json"), "--select", "mmr:window=none", "--select", "dpp")
    answer = json.loads(run("identify", *flags, "--json"))
    assert answer["best"]["label"] == "MMR on dense vectors" and answer["best"]["explained"] == 1
    assert answer["best"]["interval"][0] <= 0.4 <= answer["best"]["interval"][1] and answer["lists"] == 12
    text = run("identify", *flags, "--depth", "20")
    assert "MMR on dense vectors, λ 0.4" in text and "explained" in text


@pytest.mark.deep
def test_identify_names_another_encoder_whose_vectors_are_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(families, "DEFAULT_SELECTORS", ("top_k", "mmr"))
    monkeypatch.setattr(families, "list_default_scorers", lambda has_texts: [engine.make("dense")])
    encoder = str(tiny_encoder(tmp_path / "tiny", list_letters()))
    data = engine.load_dataset("numpy-api")
    space, queries = engine.Space(data.corpus, engine.embed(data.corpus, encoder), "cpu"), data.judged("dev")
    decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.6), depth=20)
    ranking = engine.decode(decoder, space, engine.embed(queries, encoder), 5)
    ids = data.corpus.ids
    lists = {query: [ids[row] for row in ranking.rows(index)] for index, query in enumerate(queries.ids)}
    (tmp_path / "run.json").write_text(json.dumps(lists), encoding="utf-8")
    text = run("identify", "--run", str(tmp_path / "run.json"))
    assert f"MMR on dense vectors of {encoder}, λ 0.6" in text
    answer = json.loads(run("identify", "--run", str(tmp_path / "run.json"), "--json"))
    assert answer["sure"] and answer["best"]["encoder"] == encoder


@pytest.mark.parametrize(
    "run_name, setting, code",
    [
        ("setting-run.json", "setting.json", 0),
        ("setting-run.json", "other.json", 1),
        ("setting.json", "setting.json", 2),
        ("setting-run.json", "setting-run.json", 2),
    ],
)
def test_expectation_is_the_exit_code(files, run_name, setting, code):
    flags = ["identify", "--run", str(files / run_name), "--expect", str(files / setting)]
    result = CliRunner().invoke(main, flags)
    assert result.exit_code == code, result.output
    as_json = CliRunner().invoke(main, [*flags, "--json"])
    assert as_json.exit_code == code and json.loads(as_json.stdout)["expected"] is {0: True, 1: False, 2: None}[code]
