"""Grades that models gave on Judge, beside people's, for the pages that choose a setting."""

from pathlib import Path

from dashboard.services.memo import Memo, get_or_compute
from dashboard.services.source import Loaded
from engine.errors import FrontierError
from engine.judging.corrected import PairedJudgements, pair_judgements
from engine.judging.log import Judged, JudgingLog, locate_log
from engine.values import digest_of

_LOGS: Memo[Path, JudgingLog] = Memo(8)


def list_judges(loaded: Loaded) -> tuple[str, ...]:
    """Return the names of the models that graded documents of a corpus; none where the log cannot be read."""
    try:
        return _read_log(loaded).models
    except FrontierError:
        # Judge says what is wrong with the log.
        return ()


def digest_model_grades(loaded: Loaded) -> str:
    """Return a digest of all that models answered about a corpus, and of people's grades beside it; "" for none."""
    if not list_judges(loaded):
        return ""
    judged = _read_log(loaded)
    items = [*judged.model_judgements, *judged.judgements]
    return digest_of([f"{item.query} {item.document} {item.grade} {item.time} {item.person}" for item in items])


def pair_with_people(loaded: Loaded, judge: str, split: str) -> PairedJudgements:
    """Return what people and a model say of a split. Raises FrontierError if people have graded too little."""
    judged = _read_log(loaded)
    # Every grade makes a new log, but a page asks several times for the same.
    grades = judged.judgements, judged.model_judgements, loaded.dataset.qrels[split].digest
    key = (loaded.key, split, judge, *grades)
    return get_or_compute("judge.paired", key, lambda: pair_judgements(judged, judge, split, loaded.dataset), 4)


def load_pair(loaded: Loaded, judge: str, split: str) -> PairedJudgements:
    """Return what people and a model say of a split, for a job, which has no session. Raises FrontierError."""
    return pair_judgements(_read_log(loaded), judge, split, loaded.dataset)


def _read_log(loaded: Loaded) -> Judged:
    """Read the judging log of a corpus. Raises FrontierError."""
    path = locate_log(loaded.space.corpus)
    # A log that stays in memory reads only what is new in its file.
    log = _LOGS.get(path)
    if log is None:
        log = _LOGS[path] = JudgingLog(path)
    return log.read()
