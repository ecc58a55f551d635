"""Names of views that other parts of the app open: Explore's, in the order of its control, and one of Theory's."""

VIEW_NAMES = RESULTS, MAP, REDUNDANCY, WEIGHTS, CHECK_UP = "Results", "Map", "Redundancy", "NNN weights", "Check-up"
"""The first one is the default."""
SEARCH_GROUP, EXACT_STEPS = "Search", "Exact vs 50 steps"
THEORY_GROUP_KEY, THEORY_VIEW_KEY = "theory.group", "theory.view"
"""Session keys of the group and of the view that Theory shows."""
