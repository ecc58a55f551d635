"""View → figure, one file a chart; no arithmetic and no Streamlit."""

from dashboard.charts.frontier import frontier_figure
from dashboard.charts.heat_map import heat_map_figure
from dashboard.charts.palette import PALETTE, Style, style_of
from dashboard.charts.slices import slices_figure
from dashboard.charts.weights import convergence_figure, weights_figure

__all__ = [
    "PALETTE",
    "Style",
    "convergence_figure",
    "frontier_figure",
    "heat_map_figure",
    "slices_figure",
    "style_of",
    "weights_figure",
]
