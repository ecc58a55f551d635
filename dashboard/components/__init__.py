"""The live plot: one Streamlit component that every chart uses."""
