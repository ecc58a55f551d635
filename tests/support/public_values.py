"""A value of every public class that is quickly built, over the corpus of the tests of frozen names."""

import numpy as np

import engine
from engine import orag
from engine.drift.history import beginning, history, measured
from engine.evaluation.runs import decode_runs
from support.paths import ROOT

CORPUS_PATH = ROOT / "tests" / "frozen" / "corpus"


def build_world():
    """Build (data set, space, the vectors of all its queries)."""
    dataset = engine.load_dataset(CORPUS_PATH)
    space = engine.Space(dataset.corpus, engine.embed(dataset.corpus, dtype="float32"), "cpu")
    return dataset, space, engine.embed_queries(space, dataset.queries)


def select_judged(world, *splits):
    """Select the vectors of the queries that splits judge."""
    dataset, _, queries = world
    return queries.take([dataset.queries.position[query] for s in splits for query in dataset.judged(s).ids])


def build_facade_values(world, folder):
    """Build values that the façades hand out, by a name for each; folder: for a log and a checkpoint."""
    dataset, space, _ = world
    dev, qrels, labelled = select_judged(world, "dev"), dataset.qrels["dev"], select_judged(world, "dev", "test")
    decoder = engine.Decoder(engine.make("mmr"))
    ranking = engine.decode(decoder, space, dev, 5)
    decoders = [*engine.grid("top_k"), *engine.grid("mmr", 3)]
    points = list(engine.sweep(decoders, space, dev, qrels, 5, split="dev"))
    log = orag.log(folder / "log.sqlite", space)
    session = log.feed(orag.thumb(log.session, dev.take([0]), dataset.corpus.ids[0]))
    event = session.history[0]
    checkpoint = folder / "dense.safetensors"
    engine.train("dense", space, world[2], dataset.qrels, hidden=2, epochs=1, batch=8, checkpoint=checkpoint)
    trained = engine.load_trained(checkpoint, space)
    return {
        "corpus": dataset.corpus, "queries": dataset.queries, "qrels": qrels, "dataset": dataset, "decoder": decoder,
        "embeddings": space.embeddings, "encoder": space.encoder, "space": space, "ranking": ranking, "log": log,
        "measures": engine.measure(ranking, space, dev, qrels, 5, ["recall"]), "point": points[0],
        "frontier": engine.frontier(points, k=5), "comparison": engine.compare(points, "recall", "top_k", 5)[0],
        "tuned": engine.tune("mmr", space, labelled, dataset.qrels, k=5, points=3),
        "objective": engine.Objective(), "session": session,
        "event": event, "query": event.query, "preset": orag.PRESETS["careful"],
        "draw": orag.ask(session, dev.take([0])), "diff": orag.diff(orag.at(session, 0), session),
        "layout": engine.layout(space, "pca"), "trained": trained,
        "recipe": trained.recipe, "epoch": trained.best, "run": trained.run, "selector": decoder.select,
        "scorer": decoder.retrieve, "method": engine.methods()["mmr"],
        "parameter": engine.methods()["mmr"].params[0], "error": engine.DataError(""),
    }  # fmt: skip


def build_further_values(world, values):
    """Build values of the remaining classes. values: those of `build_facade_values`."""
    dataset, space, _ = world
    dev, qrels, session = select_judged(world, "dev"), dataset.qrels["dev"], values["session"]
    (run,) = decode_runs([values["decoder"]], space, dev, 5)
    points = list(engine.sweep([*engine.grid("top_k"), *engine.grid("mmr", 3)], space, dev, qrels, 5, split="dev"))
    decision, found = engine.decide(points, k=5), engine.identify(run, space, dev)
    start, vectors, query = beginning(session, dev, qrels), np.eye(4), np.array([0.9, 0.3, 0.2, 0.1])
    rows = measured(session, start, dev, qrels, [values["decoder"]], [0, 1], 5)
    return {
        "points": points, "decision": decision, "option": decision.options[0], "identification": found, "run": run,
        "hypothesis": found.best, "curve": engine.exact_frontier("mmr", space, dev, qrels, k=5),
        "path": engine.path("mmr", space, dev, k=5)[0], "drift": history(session, start, [0, 1])[-1],
        "round": rows[-1], "splits": dataset.qrels, "trace": engine.trace(values["ranking"], space, dev),
        "stratum": engine.stratify(points, "recall", dict.fromkeys(dev.ids, 1), 5, groups=1)[0],
        "optimum": engine.optimum("max_sum", vectors, query, 2), "outlook": engine.outlook(vectors),
        "snippet": engine.export(values["decoder"], "python"), "progress": engine.ProgressBar(),
        "pool": engine.pool_depth(values["decoder"], space, dev, 5),
        "duplicates": engine.find_near_duplicates(space, 0.9),
        "margins": engine.margins(dataset.corpus, dataset.queries, ranks=(1,)),
    }  # fmt: skip
