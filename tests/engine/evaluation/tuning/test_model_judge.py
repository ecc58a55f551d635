"""A model's judgements in a tuning: those of the report's queries are left out, and what cannot be used is refused."""

import numpy as np
import pytest

import engine
from engine.errors import DataError, ParamError
from engine.evaluation.decide import estimate_options
from support.sweeps import toy


@pytest.fixture(scope="module")
def data():
    """A toy corpus whose queries a person judged in two splits, and a model on all, which is mostly right."""
    space, queries, qrels = toy(batch=60)
    rng, model = np.random.default_rng(1), {}
    for query, grades in qrels.grades.items():
        pool = {**dict.fromkeys(space.corpus.ids[::4], 0), **grades}
        model[query] = {doc: int(rng.random() < (0.85 if grade else 0.05)) for doc, grade in pool.items()}
    ids = list(qrels.grades)
    splits = {
        "dev": engine.Qrels({query: qrels.grades[query] for query in ids[:20]}),
        "test": engine.Qrels({query: qrels.grades[query] for query in ids[20:35]}),
    }
    return space, queries, splits, engine.Qrels(model, judgements="complete")


@pytest.mark.parametrize("values", ["grid", pytest.param("all", marks=pytest.mark.deep)])
def test_choice_is_that_of_decide_by_both_judges(data, values):
    space, queries, splits, model = data
    options = {"k": 5, "points": 5, "values": values, "objective": "diverse"}
    tuned = engine.tune("mmr", space, queries, splits, model_qrels=model, judge="M", **options)
    use = tuned.decision.judge
    assert (use.judge, use.person_queries) == ("M", 20)
    # Queries that the report is on must not have chosen, whoever judged them.
    assert use.model_queries == sum(query not in splits["test"].grades for query in model.grades)
    assert use.agreement is not None and use.agreement.sentence in tuned.decision.sentences
    alone = engine.tune("mmr", space, queries, splits, **options)
    assert alone.decision.judge is None
    errors = [each.estimates.losses.std_error for each in (tuned, alone)]
    assert errors[0].mean() < errors[1].mean()
    if values == "grid":
        # The same by hand: each judge's cells, given to the estimate.
        kept = {query: grades for query, grades in model.grades.items() if query not in splits["test"].grades}
        decoders = [engine.Decoder(engine.make("top_k")), *engine.grid("mmr", 5)]
        arguments = {"k": 5, "metrics": ("recall", "ilad")}
        rows = [row for row, query in enumerate(queries.ids) if query in splits["dev"].grades]
        person_cells = list(engine.sweep(decoders, space, queries.take(rows), splits["dev"], **arguments))
        rows = [row for row, query in enumerate(queries.ids) if query in kept]
        by_model = engine.sweep(
            decoders, space, queries.take(rows), engine.Qrels(kept, judgements="complete"), **arguments
        )
        expected = estimate_options(person_cells, k=5, model_judged=list(by_model))
        np.testing.assert_allclose(tuned.estimates.losses.mean, expected.losses.mean, atol=1e-12)


def test_unusable_judges_are_refused(data):
    space, queries, splits, model = data
    against = {query: {doc: 1 - grade for doc, grade in own.items()} for query, own in model.grades.items()}
    with pytest.raises(DataError, match="M must agree with you better than chance"):
        engine.choose(space, queries, splits, k=5, model_qrels=engine.Qrels(against), judge="M")
    with pytest.raises(ParamError, match='objective must be "diverse" where model_qrels is given'):
        engine.tune("mmr", space, queries, splits, k=5, objective="maximise", model_qrels=model)
    with pytest.raises(DataError, match=r"model_qrels must be engine\.Qrels; got dict"):
        engine.tune("mmr", space, queries, splits, k=5, objective="diverse", model_qrels=model.grades)
    few = queries.take(range(20))
    with pytest.raises(DataError, match="queries must have all that the model judged; 39 of 59 are missing"):
        engine.tune("mmr", space, few, {"dev": splits["dev"]}, test=None, k=5, objective="diverse", model_qrels=model)
