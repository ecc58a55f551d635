"""A report says of a choice what another split said of it on Trade-off, and asks nothing of its own accord."""

import engine
from dashboard.charts.html import escape_html
from dashboard.report import build_page
from dashboard.services import confirmations
from dashboard.services.sweeps import SWEEPS_SECTION
from engine.data import cache
from engine.evaluation.sweep.sweep import grid
from support.sweeps import make_passages, toy

K = 5


def test_report_has_the_outcome_of_a_choice_that_was_confirmed_and_of_no_other():
    cache.entry_path(SWEEPS_SECTION, confirmations.CONFIRMATIONS_FILE).unlink(missing_ok=True)
    space, queries, qrels = toy(batch=200)
    # A grade of 0 would make the judgements pooled.
    qrels = engine.Qrels({query: grades for query, grades in qrels.grades.items() if any(grades.values())})
    decoders = [*grid("top_k"), *grid("mmr", 5), *grid("vrsd")]
    dev, test = (
        list(engine.sweep(decoders, space, queries, qrels, K, ("recall", "ilad"), split=split))
        for split in ("dev", "test")
    )
    decision = engine.decide(dev, k=K)
    labels = [option.label for option in (decision.sure, decision.bet) if option is not None]
    confirming = [cell for cell in test if cell.label in (dev[0].label, *labels)]
    sentences = engine.decide(dev, k=K, confirm=confirming).confirmations
    assert labels and sentences
    before = build_page(dev, "ilad", "recall", K, confirming=test)
    confirmations._append({"choice": confirmations._identify_choice(
        space.embeddings.digest, qrels.digest, "test", K, [dev[0].label, *labels]
    )})  # fmt: skip
    after = build_page(dev, "ilad", "recall", K, confirming=test)
    for sentence in sentences:
        assert escape_html(sentence) in after and escape_html(sentence) not in before


def test_report_leaves_out_the_settings_that_stray_from_passages():
    decoders = [*grid("top_k"), *grid("mmr", 5)]
    cells = list(engine.sweep(decoders, k=K, metrics=("recall", "ilad"), **make_passages()))
    assert "whose lists leave the topic" in build_page(cells, "ilad", "recall", K)
