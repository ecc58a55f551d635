"""The decision over queries: which settings, how sure, in which words, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import engine
from engine import DataError, Embeddings, ParamError, Qrels, Space, decide
from engine.evaluation.decide import BET_CHANCE, SURE_CHANCE
from support.points import cell

N_QUERIES = 200


def make_values(gain=0.0, loss=0.0, spread=0.0, seed=0, **more):
    """Recall of .5 and ILAD of .4 with a relative gain and loss; spread: of the loss, from query to query."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, spread, N_QUERIES) if spread else np.zeros(N_QUERIES)
    recall = 0.5 * (1 - loss + noise - noise.mean())
    return {"recall": recall, "ilad": np.full(N_QUERIES, 0.4 * (1 + gain)), **more}


BASE = cell("top_k", make_values())


def test_sure_and_bet_are_the_largest_gains_of_their_chances():
    points = [BASE]
    for weight in np.linspace(0.5, 0.95, 10):
        gain = 1 - weight
        points.append(cell("mmr", make_values(gain, 0.2 * gain, gain, seed=3), relevance_weight=round(weight, 3)))
    decision = decide(points)
    chances = {option.label: option.chance for option in decision.options}
    sure_gains = [option.gain for option in decision.options if option.chance >= SURE_CHANCE]
    bet_gains = [option.gain for option in decision.options if option.chance >= BET_CHANCE]
    assert decision.sure.gain == max(sure_gains) and decision.bet.gain == max(bet_gains) > decision.sure.gain
    assert chances[decision.bet.label] == decision.bet.chance < SURE_CHANCE
    assert [option.gain for option in decision.options] == sorted(option.gain for option in decision.options)
    best = decision.sure
    assert best.share_kept == pytest.approx(1 - 0.2 * best.gain) and best.low <= best.expected_share <= best.high


def test_sentences_say_gain_certainty_and_origin():
    points = [BASE, cell("vrsd", make_values(0.24, 0.01, 0.01)), cell("max_sum", make_values(0.36, 0.04, 0.3))]
    decision = decide(points)
    assert decision.sure.name == "VRSD" and decision.bet.name.startswith("Max-sum")
    first, second, third = decision.sentences
    assert first == "You can be 24% more diverse and be sure to keep 95% of Top-k's Recall@10: VRSD."
    tenths = round(10 * decision.bet.chance)
    assert second == f"Going for 36%, {decision.bet.name}, is a bet that holds {tenths} times in 10."
    assert third == "Chosen on 200 queries of test."


def test_nothing_sure_names_the_bet_or_the_nearest():
    bet_only = decide([BASE, cell("vrsd", make_values(0.3, 0.04, 0.4))])
    assert bet_only.sure is None and bet_only.bet.name == "VRSD"
    assert bet_only.sentences[0] == "No setting is more diverse and sure to keep 95% of Top-k's Recall@10."
    assert bet_only.sentences[1].startswith("Going for 30% more diverse, VRSD, is a bet that holds ")
    neither = decide([BASE, cell("vrsd", make_values(0.3, 0.4, 0.1))])
    assert neither.sure is neither.bet is None
    assert neither.sentences[1] == "The nearest, VRSD: 30% more diverse, a bet that hardly ever holds."
    assert decide([BASE]).sentences == (bet_only.sentences[0], "Chosen on 200 queries of test.")


def test_setting_with_less_of_the_objective_is_never_recommended():
    decision = decide([BASE, cell("vrsd", make_values(-0.1, -0.2, 0.01))])
    assert decision.sure is decision.bet is None and len(decision.options) == 1


def test_objective_of_which_less_is_better_gains_by_falling():
    base = cell("top_k", make_values(redundancy=np.full(N_QUERIES, 0.4)))
    fewer = cell("vrsd", make_values(loss=0.01, spread=0.01, redundancy=np.full(N_QUERIES, 0.1)))
    decision = decide([base, fewer], objective="redundancy")
    assert decision.sure.name == "VRSD" and decision.sure.gain == pytest.approx(0.75)


def test_confirmation_is_student_bound_of_the_other_split():
    chosen = [BASE, cell("vrsd", make_values(0.24, 0.01, 0.02))]
    other = [cell("top_k", make_values(), split="dev"), cell("vrsd", make_values(0.2, 0.02, 0.2, seed=8), split="dev")]
    option = decide(chosen, confirm=other).sure
    changes = (other[1].values["recall"] - other[0].values["recall"]) / 0.5
    bound = stats.t.interval(0.9, N_QUERIES - 1, changes.mean(), stats.sem(changes))[0]
    assert option.confirmed_low == pytest.approx(1 + bound) and option.confirmed_share == pytest.approx(0.98)
    assert option.confirmed == (1 + bound >= 0.95)
    assert decide(chosen, confirm=other).sentences[-1].startswith("On dev (200 queries) VRSD keeps 98.0%, at least ")
    assert decide(chosen, confirm=[other[0]]).sure.confirmed is None


def test_pooled_judgements_leave_out_what_is_hardly_judged(monkeypatch):
    holes = {"judged": np.zeros(N_QUERIES), "unjudged": np.full(N_QUERIES, 0.5)}
    points = [
        cell("top_k", make_values(holes=holes["judged"])),
        cell("vrsd", make_values(0.3, 0.0, 0.01, holes=holes["unjudged"])),
        cell("mmr", make_values(0.1, 0.0, 0.01, holes=holes["judged"]), relevance_weight=0.9),
    ]
    assert decide(points).sure.name == "VRSD" and decide(points).sure.judged == 0.5
    monkeypatch.setattr(type(points[0]), "provenance", {"judgements": "pooled", "relevant_from": "2"}, raising=False)
    decision = decide(points)
    assert decision.sure.name.startswith("MMR") and decision.judged == 1.0 and decision.relevant_from == 2
    assert decision.sentences[-1] == "A document counts as relevant from grade 2."
    assert [option.name for option in decision.left_out] == ["VRSD"]
    assert decision.sentences[-3] == "Left out: 1 setting with fewer than 95% of the documents judged: judge more."
    unmeasured = decide([cell("top_k", make_values()), cell("vrsd", make_values(0.3, 0.0, 0.01))])
    assert unmeasured.sure is None and len(unmeasured.left_out) == 1
    assert "measure the metric holes" in " ".join(unmeasured.sentences), (
        "what is missing is said, and nothing is nearest"
    )
    assert not any("nearest" in sentence for sentence in unmeasured.sentences)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"keep": 1.5}, ParamError, "share"),
        ({"metric": "redundancy"}, ParamError, "more is better"),
        ({"metric": "recal"}, ParamError, "recal"),
        ({"baseline": "mmr"}, ParamError, "none is called 'mmr'"),
        ({"k": 5}, DataError, "k = 5"),
    ],
)
def test_wrong_argument_is_refused_by_name(arguments, error, text):
    with pytest.raises(error, match=text):
        decide([BASE, cell("vrsd", make_values(0.1))], **arguments)


def test_no_share_without_recall_and_no_decision_on_one_query():
    nothing = cell("top_k", {"recall": np.zeros(3), "ilad": np.ones(3)})
    with pytest.raises(DataError, match="is 0 on 3 queries"):
        decide([nothing])
    single = cell("top_k", {"recall": [1.0], "ilad": [0.5]})
    with pytest.raises(DataError, match="got 1"):
        decide([single])
    with pytest.raises(ParamError, match="top_k"):
        decide([cell("vrsd", make_values())])


def test_curves_are_solved_for_their_parameter():
    data = engine.load_dataset("numpy-api")
    space = Space(data.corpus, engine.embed(data.corpus))
    queries, qrels = engine.embed(data.judged("dev").sample(60)), data.qrels["dev"]
    arguments = {"k": 10, "metrics": ("recall", "ilad")}
    (base,) = engine.sweep([engine.Decoder(engine.make("top_k"))], space, queries, qrels, **arguments)
    curve = engine.exact_frontier("mmr", space, queries, qrels, resamples=100, **arguments)
    decision = decide([base, curve], keep=0.9)
    assert decision.bet is not None or decision.sure is not None
    weights = sorted(option.decoder.select.relevance_weight for option in decision.options)
    for option in filter(None, (decision.sure, decision.bet)):
        weight = option.decoder.select.relevance_weight
        assert min(abs(weight - other) for other in weights if other != weight) <= 0.002
        measured = engine.measure(engine.decode(option.decoder, space, queries, 10), space, queries, qrels)
        assert option.share_kept == pytest.approx(measured.mean["recall"] / base.mean["recall"], abs=1e-6)
        assert option.gain == pytest.approx(measured.mean["ilad"] / base.mean["ilad"] - 1, abs=1e-6)
    with pytest.raises(ParamError, match="single queries"):
        decide([base, replace(curve, steps=None)])


def test_embeddings_alone_suffice():
    rng = np.random.default_rng(0)
    ids = tuple(map(str, range(40)))
    vectors = engine.Embeddings(ids, np.eye(40, dtype=np.float32))
    space = Space(engine.Corpus(ids, ids), vectors)
    asked = rng.normal(size=(30, 40)).astype(np.float32)
    queries = Embeddings(tuple(f"q{i}" for i in range(30)), asked / np.linalg.norm(asked, axis=1, keepdims=True))
    qrels = Qrels({query: {str(int(row)): 1} for query, row in zip(queries.ids, asked.argmax(axis=1), strict=True)})
    decoders = [engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr", relevance_weight=0.5))]
    decision = decide(engine.sweep(decoders, space, queries, qrels, k=5), k=5)
    assert decision.queries == 30 and len(decision.options) == 1
