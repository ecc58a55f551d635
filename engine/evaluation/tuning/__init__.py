"""Choose a setting on one split and report it on another."""
