"""Titles of metrics in tables."""

from dashboard.widgets.tables import name_metric


def test_diversity_is_named_before_its_abbreviation_and_other_metrics_by_their_titles():
    assert name_metric("ilad") == "Diversity (ILAD)" and name_metric("ilad", 5) == "Diversity (ILAD@5)"
    assert name_metric("recall", 5) == "Recall@5" and name_metric("unknown") == "unknown"
