"""Evidence: what the papers claim, and what came of it."""

from dashboard.evidence import page
from dashboard.session import address

address.get_source()
page.draw_evidence()
