"""View → figure, one file a chart; no arithmetic and no Streamlit."""
