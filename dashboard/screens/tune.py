"""Tune: choose a setting on one split, report it on another; train embeddings."""

from dashboard import frame
from dashboard.widgets.choices import choose

loaded, _ = frame.draw_header(with_query=False)
if loaded is not None:
    from dashboard.services import training_runs
    from dashboard.training import page as training
    from dashboard.tuning import page as tuning

    TUNE, TRAIN = "Tune a setting", "Train"
    VIEWS = {TUNE: tuning.draw_tuning, TRAIN: training.draw_training}
    # After a reload what is under way is what people look for.
    first = TRAIN if training_runs.is_training(loaded.without_training) else TUNE
    VIEWS[choose("Tune or train", VIEWS, "tune.page", default=first)](loaded)
