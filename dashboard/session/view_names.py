"""The names of Explore's views in the order of its control; the first one is the default."""

VIEW_NAMES = RANKED_DIFF, MAP, REDUNDANCY, WEIGHTS, METRICS = "Ranked diff", "Map", "Redundancy", "Weights", "Figures"
