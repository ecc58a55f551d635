"""A table of the demo's documents, judged on Judge: by a model on all typed searches, by a person on some of them."""

from dataclasses import replace

import numpy as np

import engine
from engine.judging.log import Judgement, JudgingLog, locate_log
from engine.judging.qrels import export_judgements
from support import pages

JUDGE = "wise at mine"


def judge_table(folder, n_searches=32, n_people=24, n_documents=60):
    """Write the table, the log in FRONTIER_HOME and an export of the person's grades; return the Source of both.

    The model is asked for the five nearest documents of each search, and gives every seventh the wrong grade; the
    person grades those of `n_people` searches later, and one document of the next search.
    """
    demo = engine.load_dataset("numpy-api")
    rows = [(f"d{row}", demo.corpus.texts[row].replace(",", " ").replace("\n", " ")[:80]) for row in range(n_documents)]
    source = pages.csv_source(folder / "table.csv", rows)
    space, texts = pages.load(source).space, demo.judged("dev").texts[:n_searches]
    log = JudgingLog(locate_log(space.corpus))
    searches = engine.Queries(tuple(f"s{number}" for number in range(len(texts))), texts)
    log.add_queries(searches)
    nearest = engine.decode(engine.Decoder(engine.make("top_k")), space, engine.embed_queries(space, searches), k=5)
    random, pairs = np.random.default_rng(0), []
    for search, documents in zip(searches.ids, nearest.index.tolist(), strict=True):
        pairs += [(search, space.corpus.ids[row], 3 * int(random.random() < 0.5)) for row in documents]
    wrong = [{"grade": 3 - grade if number % 7 == 0 else grade} for number, (*_, grade) in enumerate(pairs)]
    answers = [Judgement(query=q, document=d, grade=g, person=JUDGE, time=1.0, is_model=True) for q, d, g in pairs]
    log.add(replace(answer, **change) for answer, change in zip(answers, wrong, strict=True))
    n_graded = 5 * n_people + 1
    judged = log.add(Judgement(query=q, document=d, grade=g, person="ann", time=2.0) for q, d, g in pairs[:n_graded])
    return replace(source, qrels=str(export_judgements(judged, folder / "export", corpus=space.corpus)))
