"""Figures of the views, one file per chart; no arithmetic and no Streamlit."""
