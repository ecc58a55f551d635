"""One short script a page, for st.Page."""
