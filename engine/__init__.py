"""Frontier's engine: every decoder, what it returns and what that costs, on CPU or GPU.

The public names. They load on first use, so that a program that only wants one of them starts fast.
"""

import importlib as _importlib
from typing import Any as _Any

_NAMES = {
    "engine.data.readers": "load_dataset",
    "engine.data.vectors": "load_vectors",
    "engine.data.frames": "load_qrels",
    "engine.evaluation.run_objects": "load_run",
    "engine.data.cloze": "containing_passages",
    "engine.data.encoders": "embed",
    "engine.data.endpoints.consent": "allow_tokens",
    "engine.stages": "methods make",
    "engine.space": "Space",
    "engine.decoder": "Decoder decode embed_queries select select_grid",
    "engine.reach": "attach Reach",
    "engine.evaluation.metrics": "measure",
    "engine.evaluation.sweep.sweep": "sweep grid",
    "engine.evaluation.studies.rerank_depth": "rerank_depths",
    "engine.evaluation.studies.ann": "approximate",
    "engine.evaluation.frontier": "frontier",
    "engine.evaluation.exact_frontier": "exact_frontier",
    "engine.evaluation.tuning.tune": "choose tune",
    "engine.evaluation.tuning.objectives": "Objective",
    "engine.evaluation.decide": "decide",
    "engine.evaluation.heat_map": "heat_map",
    "engine.judging.grade_answers": "grade_answers",
    "engine.evaluation.frames": "to_frame",
    "engine.identification.identify": "identify",
    "engine.evaluation.stratification": "stratify",
    "engine.evaluation.statistics": "compare",
    "engine.evaluation.studies.compare_encoders": "compare_encoders",
    "engine.evaluation.export_decoder": "export",
    "engine.evaluation.trace": "trace",
    "engine.evaluation.studies.brute_force": "optimum",
    "engine.evaluation.path": "path weight_path",
    "engine.evaluation.studies.fista_convergence": "convergence",
    "engine.evaluation.studies.pool_depth": "pool_depth",
    "engine.evaluation.studies.near_duplicates": "find_near_duplicates",
    "engine.evaluation.studies.drop_duplicates": "drop_duplicates",
    "engine.integrations": "integrations",
    "engine.feedback": "orag",
    "engine.maps.layout": "layout Layout",
    "engine.training.train": "train preflight",
    "engine.training.experiment": "course",
    "engine.evaluation.splits": "parted",
    "engine.training.trained": "load_trained",
    "engine.training.cross_encoder": "train_cross_encoder",
    "engine.theory.elastic_net": "witness counterexample outlook",
    "engine.theory.margins": "margin margins",
    "engine.theory.random_projections": "pair_errors",
    "engine.theory.measured_dimensions": "recall_dimensions",
    "engine.theory.segments": "segment_margins segments",
    "engine.theory.projection_bounds": "pair_error_bound sufficient_dimension",
    "engine.values": "Corpus Queries Qrels Dataset Embeddings Ranking",
    "engine.progress": "ProgressBar",
    "engine.errors": "FrontierError ParamError DataError Cancelled",
}
"""The public names of each module."""

_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_HOME)

_ALIASES = {"parted": "three_way"}
"""Public names that their modules call otherwise."""


def __getattr__(name: str) -> _Any:
    """Import a public name from its module when it is first used; Python calls this once for each."""
    if name == "__version__":
        return _read_version()
    if name not in _HOME:
        # Python itself asks for names such as __path__, which nobody misspelt.
        import difflib

        nearest = [] if name.startswith("_") else difflib.get_close_matches(name, _HOME, n=1)
        suggestion = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise AttributeError(f"module 'engine' has no attribute {name!r}{suggestion}")
    module = _importlib.import_module(_HOME[name])
    value = module if name in ("orag", "integrations") else getattr(module, _ALIASES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "__version__"})


def _read_version() -> str:
    """Return the version of the installed package; "unknown" of a bare checkout."""
    # Imported here: reading metadata takes a tenth of the time of `import engine`.
    from importlib import metadata

    try:
        return metadata.version("frontier-retrieval")
    except metadata.PackageNotFoundError:
        return "unknown"
