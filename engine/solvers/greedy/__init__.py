"""One pick at a time from a certified pool."""
