"""Trade-off: every decoder at every setting, and the sets behind a point."""
