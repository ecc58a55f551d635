"""Controls and tables that several pages draw."""
