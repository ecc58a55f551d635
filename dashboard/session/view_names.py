"""Names of Explore's views in the order of its control; the first one is the default."""

VIEW_NAMES = RESULTS, MAP, REDUNDANCY, WEIGHTS, CHECK_UP = "Results", "Map", "Redundancy", "NNN weights", "Check-up"
