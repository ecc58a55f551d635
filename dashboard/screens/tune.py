"""Tune: a setting chosen on one split, reported on another, applied to Explore; and embeddings trained for it."""

import streamlit as st

from dashboard import frame

loaded, _ = frame.begin(asking=False)
if loaded is not None:
    from dashboard.training import page as training
    from dashboard.training import runs
    from dashboard.tuning import page as tuning

    TUNE, TRAIN = "Tune a setting", "Train"
    VIEWS = {TUNE: tuning.show, TRAIN: training.show}
    view = st.segmented_control(
        "Tune or train",
        list(VIEWS),
        # After a reload what is under way is what people look for.
        default=TRAIN if runs.at_work(loaded.plain) else TUNE,
        required=True,
        key="tune.page",
        persist_state="session",
        label_visibility="collapsed",
    )
    VIEWS[view or TUNE](loaded)
