"""Names of Explore's views in the order of its control; the first one is the default."""

VIEW_NAMES = RESULTS, TABLE, MAP, REDUNDANCY, WEIGHTS, METRICS, CHECK_UP = (
    "Results",
    "Table",
    "Map",
    "Redundancy",
    "NNN weights",
    "All metrics",
    "Check-up",
)
