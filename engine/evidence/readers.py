"""Measures of claims on readers: answers that a chat model writes from decoders' sets, and if they are supported.

The papers' readers are other models, and their answers were compared with answers that people wrote. Here the reader is
a model of endpoints.toml, and an answer counts where the documents that people judged relevant support it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.decoder import Decoder
from engine.evidence.claim import Measurement, define_measure
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import POINTS, choose_on_dev
from engine.judging.answer_log import SUPPORTED_GRADE
from engine.judging.answers import make_reader
from engine.judging.grade_answers import grade_answers
from engine.values import digest_of

READER_SETS = ("multihop-rag-summ500", "perspectrum", "cranfield")
"""Sets whose documents are texts that answer something, not names of tools or labels."""
MAX_READ_QUERIES = 100
"""Queries of each set that are read: every one costs an answer and a grade for each decoder."""


@define_measure("support of answers")
def support_differences(
    sets: Sequence[JudgedSet], seed: int, claimed: Sequence[Decoder], others: Mapping[str, Sequence[Decoder]], k: int
) -> Measurement:
    """Measure by how many points of queries a decoder's sets give a supported answer more often than its rivals'.

    claimed, others: settings that dev chooses from by Recall. Return "set: points of supported answers over rival" →
    paired differences of the test queries on which both have a grade. Raises the errors of `grade_answers`.
    """
    cells: dict[str, list[float]] = {}
    for judged_set in sets:
        choices = [choose_on_dev(judged_set, decoders, "recall", k) for decoders in (claimed, *others.values())]
        queries, qrels = judged_set.queries("test", MAX_READ_QUERIES), judged_set.splits["test"]
        grading = grade_answers(choices, judged_set.space, queries, qrels, str(judged_set.reader), k=k, seed=seed)
        # By the systems' names, which tell apart what dev chose of several settings.
        grades = {(answer.query, answer.system): answer.grade for answer in grading.answers}
        claimed_system, *systems = grading.session.task.systems
        for name, system in zip(others, systems, strict=True):
            pairs = [(grades[query, claimed_system], grades[query, system]) for query in grading.session.task.evidence]
            # What the model refused is known of neither decoder.
            known = np.array([pair for pair in pairs if None not in pair]).reshape(-1, 2) >= SUPPORTED_GRADE
            differences = POINTS * (known[:, 0].astype(float) - known[:, 1])
            cells[f"{judged_set.name}: points of supported answers@{k} over {name}"] = differences.tolist()
    return cells


def digest_reader(endpoint: str) -> str:
    """Return the digest of what decides an endpoint's answers. Raises DataError or ParamError."""
    writer, grader = make_reader(endpoint)
    settings = writer.endpoint.settings
    return digest_of([writer.name, grader.name, settings.url.rstrip("/"), settings.version])
