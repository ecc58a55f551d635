"""Questions to a whole corpus: values that can be kept in sets though they hold arrays."""

import numpy as np

from engine.solvers.certificate_queries import LinearQuestion


def test_questions_are_told_apart_by_identity():
    questions = [LinearQuestion(np.zeros(3), 0.5, frozenset({0})) for _ in range(2)]
    assert len({*questions, questions[0]}) == 2 and questions[0] != questions[1]
