"""Training on a planted set: it learns, repeats itself, ends when it should, and goes on from its checkpoint."""

import json
from dataclasses import replace
from itertools import count

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

import engine
from engine.training.checkpoints import SEAL_KEY, _compute_seal
from engine.training.dataset import gather_samples
from engine.training.loop import fit
from engine.training.metrics import Losses
from engine.training.recipes import RECIPES, make_recipe
from engine.training.train import prepare_run
from support.draws import deepen
from support.fork_server import fork_python
from support.training import (
    ENCODER,
    NNN,
    PROJECTED,
    QUICK,
    SMALL,
    StopAfter,
    drop_times,
    quality,
    restrict,
    split_queries,
)


def test_sums_of_turned_atoms_are_learnt(data):
    """Queries that are sums of three documents, turned: an adapter can turn them back."""
    result = engine.train("nnn", *data, **{**NNN, "epochs": 8})
    first, after = result.history[0].dev, result.best.dev
    assert first.comp5 < 0.1 and after.comp5 > first.comp5 + 0.35 and after.recall5 > first.recall5 + 0.3
    unstopped = engine.train("dense", *data, **{**QUICK, "epochs": 8})
    assert unstopped.best.dev.comp5 > unstopped.history[0].dev.comp5 + 0.1


def quick(method):
    return {"nnn": NNN, "dense": QUICK, "colt": {"epochs": 2, "batch": 64}}.get(method, PROJECTED)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", list(RECIPES))
def test_cuda_learns_as_the_cpu_does(method, data):
    space, queries, qrels = data
    cpu, gpu = (
        engine.train(method, engine.Space(space.corpus, space.embeddings, device), queries, qrels, **quick(method))
        for device in ("cpu", "cuda")
    )
    assert gpu.space.vectors.is_cuda
    for first, two in zip(cpu.history, gpu.history, strict=True):
        assert first.loss is None or two.loss == pytest.approx(first.loss, rel=1e-3)
        assert two.dev.recall5 == pytest.approx(first.dev.recall5, abs=0.02)


@pytest.mark.parametrize("method", deepen(RECIPES, ["multi_vector"]))
def test_same_seed_same_history_and_no_global_randomness(method, data):
    results = []
    for elsewhere, seed in enumerate((1, 1, 2)):
        torch.manual_seed(elsewhere)
        state = torch.get_rng_state()
        results.append(engine.train(method, *data, seed=seed, **{**quick(method), "epochs": 2}))
        assert torch.get_rng_state().equal(state)
    first, two, second = results
    assert drop_times(first.history) == drop_times(two.history) and first.digest == two.digest
    assert drop_times(first.history) != drop_times(second.history)


# History


def test_history_counts_equal_the_decoders(data):
    """With steps of size 0 an epoch sees the embeddings as they are: exact weights say what it must have counted."""
    space, _, qrels = data
    still = {**NNN, "l1": 0.65, "query_rate": 0.0, "corpus_rate": 0.0, "epochs": 1, "weight_decay": 0.0}
    result = engine.train("nnn", *data, **still)
    learnt = split_queries(data, "train")
    ranking = engine.decode(engine.Decoder(engine.make("nnn", l1=0.65, l2=0.1)), result.space, learnt, 80)
    sizes = ranking.returned.numpy()
    relevant = [{space.corpus.position[doc] for doc in qrels["train"].relevant(query)} for query in learnt.ids]
    missed = sum(len(own - set(row.tolist())) for own, row in zip(relevant, ranking.index, strict=True))
    epoch = result.history[1]
    assert epoch.support == pytest.approx(sizes.mean()) and epoch.empty == pytest.approx((sizes == 0).mean())
    assert (sizes == 0).sum() > 5 and (sizes == 1).sum() > 5 and (sizes > 1).sum() > 5
    assert epoch.outside == pytest.approx(missed / (3 * 320)) and 0 < epoch.outside < 1
    assert epoch.satisfied == 0 and epoch.loss > 0 and epoch.dev == result.history[0].dev
    assert result.run.best == -1, "no gain, so the start is the best"


def test_history_measures_dev_as_measure_does(data, trained):
    dev = split_queries(data)
    ranking = engine.decode(trained.recipe.decoder(), trained.space, dev, 5)
    for k in (3, 5):
        result = engine.measure(ranking, trained.space, dev, data[2]["dev"], k, ("comp", "recall"))
        for name in ("comp", "recall"):
            column = result.values[name]
            assert getattr(trained.best.dev, f"{name}{k}") == pytest.approx(column.mean())
            assert getattr(trained.best.dev, f"{name}{k}_se") == pytest.approx(column.std(ddof=1) / 10)
    assert [e.epoch for e in trained.history] == [-1, 0, 1, 2] and trained.history[0].loss is None
    assert trained.best.dev.comp5 == max(e.dev.comp5 for e in trained.history)


def test_patience_counts_epochs_without_a_strict_gain(data):
    still = {**NNN, "query_rate": 0.0, "corpus_rate": 0.0, "epochs": 9, "patience": 2}
    result = engine.train("nnn", *data, **still)
    assert len(result.history) == 3 and result.stopped == "no gain in Comp@5 on dev for 2 epochs"


def test_training_stops_where_no_document_has_a_weight(data):
    result = engine.train("nnn", *data, **{**NNN, "l1": 2.0, "loss": "eq6"})
    assert len(result.history) == 2 and result.history[1].empty == 1 and result.run.best == -1
    assert "no document had a weight for any query" in result.stopped


@pytest.mark.parametrize("how", ["loss", "gradient"])
def test_non_finite_loss_ends_training_with_the_best_epoch(data, how):
    run = prepare_run(make_recipe("dense", **QUICK), gather_samples(*data, "train", "dev"), 0)
    objective, weight, countdown = run.built.objective, next(run.built.model.parameters()), count(12, -1)

    class Breaking(type(objective)):
        """Its thirteenth loss is no number, or has a gradient that is none."""

        def __call__(self, batch):
            values = super().__call__(batch).values
            broken = torch.tensor(torch.nan) if how == "loss" else (weight - weight).square().sum().sqrt()
            return Losses(values if next(countdown) else values + broken)

    run = fit(replace(run, built=replace(run.built, objective=Breaking(objective.model, objective.recipe))))
    assert len(run.history) == 2 and f"the {how} was" in run.stopped and "epoch 1" in run.stopped
    assert all(tensor.isfinite().all() for tensor in run.kept.values())


def test_penalties_are_chosen_on_dev_before_and_after(data, dense):
    result = engine.train("nnn", dense.space, *data[1:], **{**QUICK, "epochs": 2})
    initial, after = (lambda decoder, where=t.space: quality(decoder, where, data)["comp"] for t in (dense, result))
    pairs = [engine.Decoder(engine.make("nnn", l1=a, l2=b)) for a in (0.03, 0.1, 0.3, 1.0) for b in (0.03, 0.3)]
    assert initial(result.recipe.decoder()) >= max(map(initial, pairs))
    assert after(result.decoder) >= after(result.recipe.decoder()) == pytest.approx(result.best.dev.comp5)
    assert after(result.decoder) >= max(map(after, pairs))


@pytest.mark.parametrize("zero", ["l1", "l2"])
def test_a_zero_that_is_given_stays(data, zero):
    result = engine.train("nnn", *data, **{**QUICK, "epochs": 1, zero: 0.0})
    other_name = {"l1": "l2", "l2": "l1"}[zero]
    for values in (result.recipe, result.decoder.select):
        assert getattr(values, zero) == 0 and getattr(values, other_name) > 0
    with pytest.raises(engine.ParamError, match="both 0"):
        engine.train("nnn", *data, **{**QUICK, "l1": 0.0, "l2": 0})


def test_the_query_adapter_learns_slowly_from_few_queries(data):
    result = engine.train("dense", *data, **{**SMALL, "epochs": 1})
    assert result.recipe.query_rate == 1e-4 and result.facts["params"]["query_rate"] == 1e-4


def test_stopped_it_returns_the_best_and_goes_on_from_the_last_epoch(data, tmp_path, trained):
    path = tmp_path / "run.safetensors"
    half = engine.train("nnn", *data, checkpoint=path, stop=StopAfter(2 * 10 + 4), **NNN)
    assert half.stopped == "stopped by hand in epoch 2" and len(half.history) == 3
    assert half.best.dev.comp5 == max(e.dev.comp5 for e in half.history)
    read = engine.load_trained(path, data[0])
    assert read.digest == half.digest and read.space.embeddings == half.space.embeddings
    assert drop_times(read.history) == drop_times(half.history) and read.stopped == ""
    again = engine.train("nnn", *data, checkpoint=path, **NNN)
    assert drop_times(again.history) == drop_times(trained.history) and again.digest == trained.digest
    assert again.history[:3] == half.history, "what was done is not done again"


def test_loaded_weights_survive_overwriting_their_file(data, file, tmp_path):
    """Other bytes in the file's place, as a copy over it leaves them, change nothing that is in memory."""
    path, copy = tmp_path / "run.safetensors", tmp_path / "copy.safetensors"
    path.write_bytes(file.read_bytes())
    loaded = engine.load_trained(path, data[0])
    with path.open("r+b") as file_handle:
        file_handle.write(b"\xff" * path.stat().st_size)
    loaded.save(copy)
    assert engine.load_trained(copy, data[0]).digest == loaded.digest


def run_after_epoch(at, action):
    """A watch that runs something else once an epoch is over."""
    return lambda epoch: action() if epoch.epoch == at else None


def hide(path, monkeypatch):
    """A file that a run does not see when it begins."""
    exists = type(path).exists
    monkeypatch.setattr(type(path), "exists", lambda self: self != path and exists(self))


def test_two_runs_on_one_file_do_not_overwrite_each_other(data, tmp_path, trained, monkeypatch):
    """Both begin before there is a file: the one that comes second, of another seed, is refused at once."""
    path = tmp_path / "run.safetensors"
    hide(path, monkeypatch)

    def run_second():
        with pytest.raises(engine.DataError, match="does not fit: seed 0 there and 1 here"):
            engine.train("nnn", *data, seed=1, checkpoint=path, **NNN)

    result = engine.train("nnn", *data, checkpoint=path, watch=run_after_epoch(0, run_second), **NNN)
    assert result.digest == trained.digest == engine.load_trained(path, data[0]).digest


@pytest.mark.deep
def test_a_run_that_lags_leaves_what_is_further_on(data, tmp_path, trained, monkeypatch):
    """Two equal runs at once: the slower one is killed, and nothing of the faster one is lost."""
    path = tmp_path / "run.safetensors"

    def run_whole():
        hide(path, monkeypatch)
        engine.train("nnn", *data, checkpoint=path, **NNN)
        monkeypatch.undo()

    # Its own epoch 1 comes after the other one's last.
    engine.train("nnn", *data, checkpoint=path, watch=run_after_epoch(0, run_whole), stop=StopAfter(2 * 10 + 4), **NNN)
    read = engine.load_trained(path, data[0])
    assert read.digest == trained.digest and drop_times(read.history) == drop_times(trained.history) and read.stopped


def test_stopped_before_the_first_step_it_raises(data):
    with pytest.raises(engine.Cancelled):
        engine.train("nnn", *data, stop=StopAfter(0), **QUICK)


def test_killed_between_two_epochs_it_goes_on(data, tmp_path, trained):
    path = tmp_path / "run.safetensors"
    code = (
        "import os, signal, sys, torch\n"
        "torch.set_num_threads(1)\n"
        "import engine\n"
        "from support.training import plant\n"
        "def watch(epoch):\n"
        "    if epoch.epoch == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"engine.train('nnn', *plant(), checkpoint={str(path)!r}, watch=watch, **{NNN!r})\n"
    )
    done = fork_python("-c", code)
    assert done.communicate()[1] == "" and done.returncode == -9
    assert len(engine.load_trained(path, data[0]).history) == 3
    result = engine.train("nnn", *data, checkpoint=path, **NNN)
    assert drop_times(result.history) == drop_times(trained.history) and result.digest == trained.digest


def test_a_finished_run_is_read_and_not_trained_again(data, tmp_path, monkeypatch):
    path = tmp_path / "run.safetensors"
    params = {**QUICK, "epochs": 1}
    first = engine.train("nnn", *data, checkpoint=path, **params)
    monkeypatch.setattr("engine.training.train.fit", None)
    monkeypatch.setattr("engine.training.train.sweep", None)
    again = engine.train("nnn", *data, checkpoint=path, **params)
    assert again.digest == first.digest and again.decoder == first.decoder and again.recipe == first.recipe
    assert again.stopped == "all 1 epochs done" and again.history == first.history
    assert engine.load_trained(path, data[0]).decoder == first.decoder
    copy = tmp_path / "copy.safetensors"
    first.save(copy)
    assert engine.load_trained(copy, data[0]).digest == first.digest


@pytest.fixture(scope="module")
def file(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "run.safetensors"
    engine.train("nnn", *data, checkpoint=path, **{**NNN, "epochs": 1})
    return path


def with_embeddings(space, **changes):
    """The corpus with other embeddings."""
    return engine.Space(space.corpus, replace(space.embeddings, **changes))


def test_a_checkpoint_of_something_else_is_refused_by_name(data, file):
    space = data[0]
    weights, arithmetic = replace(ENCODER, digest="1" * 64), replace(ENCODER, dtype="bfloat16")
    texts = replace(space.corpus, texts=("another text", *space.corpus.texts[1:]))
    for second, named in (
        (engine.Space(texts, space.embeddings), "corpus "),
        (with_embeddings(space, vectors=space.vectors.roll(1, 1)), "corpus embeddings "),
        (with_embeddings(space, vectors=space.vectors.flip(0)), "corpus embeddings "),
        (with_embeddings(space, encoder=weights), "encoder weights 00000000 there and 11111111 here"),
        (with_embeddings(space, encoder=arithmetic), "arithmetic of the encoder float32 there and bfloat16 here"),
    ):
        with pytest.raises(engine.DataError, match="does not fit.*" + named):
            engine.load_trained(file, second)


def test_vectors_that_differ_in_their_last_digits_are_read(data, file):
    """Embeddings of another machine differ in the last digits."""
    space, queries, _ = data
    noise = 1e-5 * torch.randn(space.vectors.shape, generator=torch.Generator().manual_seed(0))
    moved = with_embeddings(space, vectors=space.vectors + noise)
    original, restored = (engine.load_trained(file, where) for where in (space, moved))
    assert restored.digest == original.digest and not torch.equal(restored.space.vectors, original.space.vectors)
    assert torch.allclose(restored.space.vectors, original.space.vectors, atol=1e-3)
    assert restored.queries(queries).vectors.equal(original.queries(queries).vectors)
    again = file.with_name("again.safetensors")
    engine.train("dense", original.space, *data[1:], checkpoint=again, **{**QUICK, "epochs": 1})
    assert len(engine.load_trained(again, moved).history) == 2


def test_a_run_of_something_else_is_refused_by_name(data, file, dense):
    space, queries, qrels = data
    params = {**NNN, "epochs": 1}
    fewer, less_dev = ({**qrels, s: restrict(qrels[s], list(qrels[s].grades)[1:])} for s in ("train", "dev"))
    moved = replace(queries, vectors=queries.vectors.roll(1, 1))
    cases = [
        (data, {**params, "seed": 3}, "seed 0 there and 3 here"),
        (data, {**params, "gamma": 2.0}, "gamma is 1.5 there and 2.0 here"),
        (data, {**params, "l1": 0.2}, "l1 is 0.1 there and 0.2 here"),
        ((space, queries, fewer), params, "training queries .*training judgements"),
        ((space, queries, less_dev), params, "dev queries .*dev judgements"),
        ((space, moved, qrels), params, "training queries .*dev queries"),
        ((with_embeddings(space, vectors=space.vectors.roll(1, 1)), queries, qrels), params, "corpus embeddings"),
        ((dense.space, queries, qrels), params, "starting point"),
    ]
    for changes, options, named in cases:
        with pytest.raises(engine.DataError, match="does not fit.*" + named):
            engine.train("nnn", *changes, checkpoint=file, **options)
    with pytest.raises(engine.DataError, match="method"):
        engine.train("dense", *data, checkpoint=file, **QUICK)


def test_another_version_does_not_go_on_but_reads(data, file, monkeypatch):
    monkeypatch.setattr("engine.training.train.version", lambda package: "0")
    with pytest.raises(engine.DataError, match="versions"):
        engine.train("nnn", *data, checkpoint=file, **{**NNN, "epochs": 1})
    assert len(engine.load_trained(file, data[0]).history) == 2


def test_a_damaged_file_is_refused(data, file, tmp_path):
    bad = tmp_path / "flipped.safetensors"
    weights, facts = bytearray(file.read_bytes()), bytearray(file.read_bytes())
    weights[-8] ^= 1
    facts[facts.index(b'l1\\": 0.1') + 8] ^= 1
    for raw in (weights, facts):
        bad.write_bytes(raw)
        with pytest.raises(engine.DataError, match="damaged"):
            engine.load_trained(bad, data[0])
    for content in (b"", b"not a checkpoint", bytes(raw[:500]), save({"x": torch.zeros(2)})):
        bad.write_bytes(content)
        with pytest.raises(engine.DataError, match="not a checkpoint of Frontier"):
            engine.load_trained(bad, data[0])
    with pytest.raises(engine.DataError, match="not a checkpoint"):
        engine.load_trained(tmp_path / "nowhere", data[0])


def write_sealed(file, path, facts=None, weights=None, **entries):
    """A copy with other contents, sealed as Frontier seals: anybody can."""
    with safe_open(file, "pt") as file_handle:
        text = {k: v for k, v in file_handle.metadata().items() if k != SEAL_KEY}
        tensors = {name: file_handle.get_tensor(name) for name in file_handle.keys()}  # noqa: SIM118 (no mapping)
    if facts is not None:
        text["facts"] = json.dumps(json.loads(text["facts"]) | facts if isinstance(facts, dict) else facts)
    text |= {name: value(text[name]) if callable(value) else value for name, value in entries.items()}
    tensors = weights(tensors) if weights else tensors
    path.write_bytes(save(tensors, text | {SEAL_KEY: _compute_seal(tensors, text)}))
    return path


def dev_of(comp5):
    """Another Comp@5 in every epoch of a history."""
    return lambda text: json.dumps([{**epoch, "dev": {**epoch["dev"], "comp5": comp5}} for epoch in json.loads(text)])


FETCHED = {"select": {"name": "nnn"}, "rerank": {"name": "cross_encoder", "model": "someone/model"}, "depth": None}
FETCHES = {"extra": json.dumps({"decoder": FETCHED | {"retrieve": {"name": "dense"}}})}


@pytest.mark.parametrize(
    "change",
    [
        {"extra": "[" * 100_000},
        {"extra": "[" * 100_000 + "]" * 100_000},
        {"best": "1" * 10_000},
        {"best": "7"},
        {"best": '"0"'},
        {"history": "[]"},
        {"history": dev_of("<b>")},
        {"history": dev_of(float("nan"))},
        {"history": dev_of(None)},
        {"stopped": '{"a": 1}'},
        {"facts": []},
        {"extra": "[1]"},
        {"extra": '{"decoder": 5}'},
        {"facts": {"params": []}},
        {"facts": {"params": {"name": "nnn", "l1": "x"}}},
        {"weights": lambda t: {}},
        {"weights": lambda t: {k: v for k, v in t.items() if not k.endswith("outer.bias")}},
        {"weights": lambda t: {k: v.flatten() for k, v in t.items()}},
        {"weights": lambda t: {k: v.long() for k, v in t.items()}},
        {"weights": lambda t: {k: v * torch.nan if "corpus" in k else v for k, v in t.items()}},
        {"weights": lambda t: t | {"best.table": torch.zeros(3, 16)}},
        {"weights": lambda t: t | {"best.../../x": torch.zeros(3)}},
    ],
)
def test_a_sealed_file_of_odd_contents_is_refused(data, file, tmp_path, change):
    assert engine.load_trained(write_sealed(file, tmp_path / "same.safetensors"), data[0]).run.best >= -1
    with pytest.raises(engine.DataError, match="no number" if callable(change.get("history")) else None):
        engine.load_trained(write_sealed(file, tmp_path / "odd.safetensors", **change), data[0])


def test_a_file_names_no_model_to_fetch(data, file, tmp_path):
    odd = write_sealed(file, tmp_path / "odd.safetensors", **FETCHES)
    with pytest.raises(engine.DataError, match="rerank must be None before nnn"):
        engine.load_trained(odd, data[0])
    with pytest.raises(engine.DataError, match="rerank must be None before nnn"):
        engine.train("nnn", *data, checkpoint=odd, **{**NNN, "epochs": 1})
