"""A query encoder whose own weights learn: a two-layer random model learns which words stand for which documents."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import engine
from engine.data.beir import write_beir
from engine.data.models import encoder_model
from engine.errors import DataError
from engine.training import encoder as own
from engine.training.dataset import gather_samples
from engine.training.recipe import ENCODER_RATE
from engine.training.recipes import make_recipe
from engine.training.train import prepare_run
from engine.values import Corpus, Dataset, Embeddings, Queries
from support.cli import run
from support.tiny_models import tiny_encoder
from support.training import StopAfter, drop_times, quality, threes

N, TRAIN, DEV = 20, 320, 80
WORDS, CODES = [f"word{i}" for i in range(N)], [f"code{i}" for i in range(N)]
QUICK = {"query_side": "encoder", "query_rate": 5e-3, "batch": 16, "hidden": 32, "epochs": 2, "patience": None}
NNN = {**QUICK, "l1": 0.1, "l2": 0.1, "regrid": False}


def plant_data(folder):
    """(space, queries, qrels): document i says word i, and queries say the codes of three documents."""
    corpus = Corpus(tuple(f"d{i}" for i in range(N)), tuple(" ".join([word] * 6) for word in WORDS))
    space = engine.Space(corpus, engine.embed(corpus, encoder=str(folder), dtype="float32"))
    ids, sets, qrels = threes(np.random.default_rng(0), N, TRAIN, DEV)
    texts = tuple(" ".join(CODES[j] for j in indices) for indices in sets)
    return space, engine.embed(Queries(ids, texts), encoder=str(folder), dtype="float32"), qrels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp("tiny") / "encoder", (*WORDS, *CODES, "find"), prompt="find ")


@pytest.fixture(scope="module")
def data(folder):
    return plant_data(folder)


@pytest.fixture(scope="module")
def trained(data):
    return engine.train("nnn", *data, **NNN)


@pytest.fixture(scope="module")
def sample(data):
    return data[1].take(range(TRAIN, TRAIN + 70))


def test_words_that_mean_nothing_are_learnt(data):
    result = engine.train("nnn", *data, **{**NNN, "epochs": 11})
    first = result.history[0].dev
    assert first.comp5 < 0.1 and result.best.dev.comp5 > first.comp5 + 0.4
    still = engine.train("nnn", *data, **{**NNN, "epochs": 1, "query_rate": 0.0})
    assert still.best.dev.comp5 < 0.1, "the corpus adapter alone does not do it"
    dense = engine.train("dense", *data, **{**QUICK, "epochs": 4})
    assert dense.best.dev.comp5 > dense.history[0].dev.comp5 + 0.1


@pytest.mark.deep
def test_same_seed_same_history_and_no_global_randomness(data, trained):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    again = engine.train("nnn", *data, **NNN)
    assert torch.get_rng_state().equal(state)
    assert drop_times(again.history) == drop_times(trained.history) and again.digest == trained.digest
    other_seed = engine.train("nnn", *data, seed=1, **NNN)
    assert drop_times(other_seed.history) != drop_times(trained.history)


def test_it_starts_as_the_encoder_and_leaves_the_shared_one_alone(data, folder, trained):
    space, queries, qrels = data
    samples = gather_samples(space, queries, qrels, "train", "dev")
    model = prepare_run(make_recipe("dense", query_side="encoder", hidden=8), samples, 0).built.model
    theirs = torch.cat([samples.train.vectors, samples.dev.vectors])
    diagonal = torch.arange(len(theirs))
    with torch.no_grad():
        assert model.encode_query(diagonal).allclose(theirs, atol=1e-5)
    assert model.encode_query(diagonal[:9]).allclose(theirs[:9], atol=1e-5), "with a graph as without"
    shared = encoder_model.load(encoder_model.find_source(str(folder)), str(space.device), "float32").model
    assert not any(p.grad is not None for p in shared.parameters())
    direct = engine.embed(
        Queries(queries.ids[:5], queries.texts[:5]), encoder=str(folder), dtype="float32", cache=False
    )
    assert direct.vectors.allclose(queries.vectors[:5], atol=1e-6)
    mine = own.unique_weights(trained.space.adapt.adapters.encoder)
    moved = [n for n, t in own.unique_weights(shared).items() if not t.allclose(mine[n].to(t), atol=1e-2)]
    assert any("word_embeddings" in n for n in moved) and any("layer.0" in n for n in moved)
    assert trained.recipe.query_side == "encoder" and not trained.space.vectors.allclose(space.vectors, atol=1e-4)


def test_default_step_size_is_the_encoders(data):
    result = engine.train("dense", *data, query_side="encoder", batch=160, epochs=1)
    assert result.recipe.query_rate == ENCODER_RATE == 2e-5


def test_a_trained_space_takes_the_same_queries_as_before_in_other_processes_too(data, trained, sample):
    decoder = engine.Decoder(engine.make("mmr"))
    adapted = trained.queries(sample)
    assert adapted.encoder == trained.space.embeddings.encoder and adapted.texts == sample.texts
    assert adapted.vectors.norm(dim=1).allclose(torch.ones(len(sample)), atol=1e-5)
    assert not adapted.vectors.allclose(sample.vectors, atol=0.01)
    result = engine.decode(decoder, trained.space, sample, 4).index
    assert engine.decode(decoder, trained.space, adapted, 4).index.equal(result)
    assert engine.decode(decoder, trained.space, list(sample.texts), 4).index.equal(result)
    restored = pickle.loads(pickle.dumps(trained.space))
    assert restored.adapt.digest == trained.digest and engine.decode(decoder, restored, sample, 4).index.equal(result)
    single = trained.queries(sample.take([3]))
    assert single.vectors.allclose(adapted.vectors[3:4], atol=1e-5), "its company changes last bits only"
    comp = quality(trained.recipe.decoder(), trained.space, data)["comp"]
    assert comp == pytest.approx(trained.best.dev.comp5, abs=0.03)


def test_a_model_that_cuts_its_vectors_is_cut_in_training_too(data, tmp_path):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(data[0].encoder.name, device="cpu", truncate_dim=12, local_files_only=True)
    model.save_pretrained(str(tmp_path / "short"), create_model_card=False)
    space, queries, qrels = plant_data(tmp_path / "short")
    assert space.embeddings.dimension == 12
    result = engine.train("dense", space, queries, qrels, **{**QUICK, "epochs": 1})
    assert result.queries(queries.take([0])).dimension == 12


# Files


def test_stopped_in_an_epoch_it_goes_on(data, tmp_path, trained):
    path = tmp_path / "run.safetensors"
    engine.train("nnn", *data, checkpoint=path, stop=StopAfter(TRAIN // QUICK["batch"] + 5), **NNN)
    assert len(engine.load_trained(path, data[0]).history) == 2
    result = engine.train("nnn", *data, checkpoint=path, **NNN)
    assert drop_times(result.history) == drop_times(trained.history) and result.digest == trained.digest


def test_the_file_gives_it_back_in_half_the_size(data, trained, sample, tmp_path):
    path = tmp_path / "run.safetensors"
    trained.save(path)
    read = engine.load_trained(path, data[0])
    assert read.digest == trained.digest and read.space.embeddings == trained.space.embeddings
    assert read.queries(sample).vectors.equal(trained.queries(sample).vectors)
    prefix = "best." + own.ENCODER_PREFIX
    weights = {name.removeprefix(prefix): t for name, t in load_file(path).items() if name.startswith(prefix)}
    assert set(weights) == set(trained.space.adapt.adapters.encoder.state_dict())
    assert all(t.dtype == torch.float16 for t in weights.values() if t.is_floating_point())


def test_other_weights_below_are_refused_by_name(data, folder, trained, tmp_path):
    space, queries, qrels = data
    path = tmp_path / "run.safetensors"
    trained.save(path)
    ref = replace(space.encoder, digest="1" * 64)
    changed = engine.Space(space.corpus, replace(space.embeddings, encoder=ref))
    with pytest.raises(DataError, match=r"does not fit.*encoder weights .* there and 11111111 here"):
        engine.load_trained(path, changed)
    with pytest.raises(DataError, match=r"has other weights here \(.*\) than when it embedded the corpus \(11111111\)"):
        engine.train("nnn", changed, replace(queries, encoder=ref), qrels, **NNN)


def test_texts_that_changed_are_another_run(data, tmp_path):
    space, queries, qrels = data
    path, options = tmp_path / "run.safetensors", {**QUICK, "epochs": 1}
    engine.train("dense", *data, checkpoint=path, **options)
    with pytest.raises(DataError, match=r"does not fit.*texts of the queries"):
        engine.train("dense", space, replace(queries, texts=queries.texts[::-1]), qrels, checkpoint=path, **options)


def test_weights_that_share_memory_are_kept_once(data, trained):
    model, _ = own.base_encoder(data[0].encoder, data[0].device)
    first, second = (model[0].model.encoder.layer[i].attention.self for i in range(2))
    second.query.weight = first.query.weight
    unique = own.unique_weights(model)
    assert len(model.state_dict()) - len(unique) == 1 and not any(
        "layer.1.attention.self.query.weight" in n for n in unique
    )
    changed = {name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in unique.items()}
    own.load_weights(model, changed)
    assert second.query.weight.equal(first.query.weight) and own.unique_weights(model).keys() == unique.keys()
    name = next(n for n in unique if n.endswith("layer.0.attention.self.query.weight"))
    assert first.query.weight.equal(changed[name])
    with pytest.raises(DataError, match="do not fit"):
        own.load_weights(model, {n: t for n, t in unique.items() if n != name})
    with pytest.raises(DataError, match="it has no stranger"):
        own.load_weights(model, {**unique, "stranger": unique[name]})


def test_the_encoder_is_written_for_others(data, trained, sample, tmp_path):
    from sentence_transformers import SentenceTransformer

    folder = tmp_path / "encoder"
    trained.save_encoder(folder)
    expected = trained.queries(sample).vectors
    ours = engine.embed(Queries(sample.ids, sample.texts), encoder=str(folder), dtype="float32")
    assert ours.vectors.allclose(expected, atol=1e-5)
    theirs = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    assert torch.from_numpy(theirs.encode_query(list(sample.texts))).allclose(expected, atol=1e-5)
    assert not list(folder.rglob("*.bin")) and list(folder.rglob("*.safetensors"))
    with pytest.raises(DataError, match="folder must be a new or an empty folder"):
        trained.save_encoder(folder)


# Training on


@pytest.mark.parametrize(
    "method, options",
    [
        ("dense", {"hidden": 16}),
        ("nnn", {**NNN, "query_side": "adapter"}),
        ("colt", {"batch": 64}),
        ("multi_vector", {"dimension": 8}),
    ],
)
def test_over_a_trained_encoder_other_things_train(data, trained, sample, tmp_path, method, options):
    """The encoder stands then, and comes back from the file together with what was trained over it."""
    space, queries, qrels = data
    path = tmp_path / "on.safetensors"
    on = engine.train(method, trained.space, queries, qrels, checkpoint=path, **{**options, "epochs": 1})
    assert on.facts["parent"] == trained.digest
    below, above = (own.unique_weights(t.space.adapt.adapters.encoder) for t in (trained, on))
    assert all(below[name].equal(above[name]) for name in below)
    if method in ("dense", "nnn"):
        comp = quality(on.recipe.dev_decoder(), trained.space, data)["comp"]
        assert on.history[0].dev.comp5 == pytest.approx(comp, abs=0.03)
    read = engine.load_trained(path, space)
    assert read.digest == on.digest and read.queries(sample).vectors.equal(on.queries(sample).vectors)
    if method != "colt":
        with pytest.raises(DataError, match="queries go through an adapter after the trained encoder"):
            on.save_encoder(tmp_path / "folder")


@pytest.mark.deep
def test_an_encoder_trains_on_and_over_adapters(data, trained, sample, tmp_path):
    space, queries, qrels = data
    on = engine.train("nnn", trained.space, queries, qrels, checkpoint=tmp_path / "on", **{**NNN, "epochs": 1})
    assert len(on.space.adapt.adapters.corpus) == 2 and on.digest != trained.digest
    assert engine.load_trained(tmp_path / "on", space).queries(sample).vectors.equal(on.queries(sample).vectors)
    dense = engine.train("dense", *data, hidden=16, epochs=2, query_rate=3e-3)
    over = engine.train("nnn", dense.space, queries, qrels, checkpoint=tmp_path / "over", **{**NNN, "epochs": 1})
    query = over.space.adapt.adapters.query
    assert query.outer.weight.equal(dense.space.adapt.adapters.query.outer.weight), "the adapter stands"
    assert engine.load_trained(tmp_path / "over", space).queries(sample).vectors.equal(over.queries(sample).vectors)


# Edges


def test_training_without_texts_raises_error(data, trained, sample):
    space, queries, qrels = data
    bare = replace(queries, texts=None)
    for call in (
        lambda: engine.train("nnn", space, bare, qrels, **NNN),
        lambda: engine.preflight("nnn", space, bare, qrels, **NNN),
        lambda: engine.train("dense", trained.space, bare, qrels),
        lambda: engine.decode(engine.Decoder(engine.make("top_k")), trained.space, bare.take([0]), 3),
    ):
        with pytest.raises(DataError, match=r"vectors without their texts.*pass engine\.Queries"):
            call()
    brought = engine.Space(space.corpus, Embeddings(space.corpus.ids, space.vectors))
    with pytest.raises(DataError, match="this corpus came with its own vectors"):
        engine.train("dense", brought, replace(queries, encoder=None), qrels, **QUICK)
    with pytest.raises(DataError, match="queries must be vectors of the encoder"):
        trained.queries(replace(sample, encoder=replace(sample.encoder, digest="2" * 64)))
    with pytest.raises(DataError, match="left the encoder as it was"):
        engine.train("dense", *data, hidden=8, epochs=1).save_encoder("nowhere")


def test_a_preflight_counts_the_time_of_the_encoder(data, monkeypatch):
    """Every timed step passes its batch through the encoder, and so does the look at dev."""
    seen = []
    real = own.TextAdapters._rows
    monkeypatch.setattr(own.TextAdapters, "_rows", lambda self, texts: seen.append(len(texts)) or real(self, texts))
    result = engine.preflight("dense", *data, **QUICK)
    dev = [min(own.TEXT_BLOCK_SIZE, DEV - start) for start in range(0, DEV, own.TEXT_BLOCK_SIZE)]
    assert seen == [16] * 4 + dev and result.seconds > 0


def test_the_command_line_has_the_flag(data, folder, tmp_path):
    space, queries, qrels = data
    texts = Queries(queries.ids, queries.texts)
    source, out = write_beir(Dataset(space.corpus, texts, qrels), tmp_path / "set"), tmp_path / "out"
    args = ["train", "dense", "--data", source, "--encoder", folder, "--dtype", "float32", "--query-side", "encoder"]
    run(*map(str, [*args, "--epochs", "1", "--hidden", "8", "--out", out]))
    result = engine.load_trained(out / "dense.safetensors", space)
    assert result.recipe.query_side == "encoder" and isinstance(result.space.adapt, own.AdaptedTexts)
    assert "wants a GPU" in run("train", "nnn", "--help").replace("\n", " ")
