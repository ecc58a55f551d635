"""Frontier's engine: every decoder, what it returns and what that costs, on CPU or GPU.

The public names. They load on first use, so that a program that only wants one of them starts fast.
"""

import importlib as _importlib

_HOME = {
    "load_dataset": "engine.data.readers",
    "load_vectors": "engine.data.vectors",
    "containing_passages": "engine.data.cloze",
    "embed": "engine.data.encoders",
    "methods": "engine.stages",
    "make": "engine.stages",
    "Space": "engine.space",
    "Decoder": "engine.decoder",
    "decode": "engine.decoder",
    "embed_queries": "engine.decoder",
    "select": "engine.decoder",
    "select_grid": "engine.decoder",
    "measure": "engine.evaluation.metrics",
    "sweep": "engine.evaluation.sweep",
    "grid": "engine.evaluation.sweep",
    "rerank_depths": "engine.evaluation.depths",
    "approximate": "engine.evaluation.approximate",
    "frontier": "engine.evaluation.frontier",
    "tune": "engine.evaluation.tune",
    "Objective": "engine.evaluation.objectives",
    "heat_map": "engine.evaluation.heat_map",
    "stratify": "engine.evaluation.strata",
    "compare": "engine.evaluation.statistics",
    "compare_encoders": "engine.evaluation.encoders",
    "export": "engine.evaluation.export",
    "trace": "engine.evaluation.trace",
    "optimum": "engine.evaluation.optimum",
    "weight_path": "engine.evaluation.weight_path",
    "convergence": "engine.evaluation.convergence",
    "orag": "engine.learning",
    "layout": "engine.maps",
    "Layout": "engine.maps",
    "train": "engine.learning.training.run",
    "preflight": "engine.learning.training.run",
    "course": "engine.learning.training.course",
    "parted": "engine.evaluation.splits",
    "load_trained": "engine.learning.training.trained",
    "train_cross_encoder": "engine.learning.training.cross_encoder",
    "witness": "engine.theory",
    "counterexample": "engine.theory",
    "outlook": "engine.theory",
    "margin": "engine.theory",
    "margins": "engine.theory",
    "pair_errors": "engine.theory",
    "recall_dimensions": "engine.theory",
    "segment_margins": "engine.theory",
    "segments": "engine.theory",
    "pair_error_bound": "engine.theory",
    "sufficient_dimension": "engine.theory",
    "Corpus": "engine.values",
    "Queries": "engine.values",
    "Qrels": "engine.values",
    "Dataset": "engine.values",
    "Embeddings": "engine.values",
    "Ranking": "engine.values",
    "FrontierError": "engine.errors",
    "ParamError": "engine.errors",
    "DataError": "engine.errors",
    "Cancelled": "engine.errors",
}

__all__ = list(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    value = getattr(_importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
