"""Theory: what the papers prove, checked on the corpus in use."""
