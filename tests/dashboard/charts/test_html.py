"""What leaves the app: set in the app's typeface where the reader has it, else in the reader's own."""

import plotly.graph_objects as go

from dashboard.charts.html import format_chart, format_page
from dashboard.charts.palette import SANS_FONTS
from dashboard.live.page import MODULE_FOLDER


def test_reports_and_live_pages_share_one_stack_of_typefaces():
    assert SANS_FONTS.startswith("'Source Sans'"), "the app's, as Streamlit brings it"
    assert f"font: 16px/1.5 {SANS_FONTS};" in format_page("A report", [])
    assert f'"family":"{SANS_FONTS}"' in format_chart(go.Figure()).replace("\\u0027", "'")
    assert f"--st-font: {SANS_FONTS};" in (MODULE_FOLDER / "live_page.css").read_text(encoding="utf-8")
