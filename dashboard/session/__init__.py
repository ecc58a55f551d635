"""State of one session: query, decoders, address, link."""
