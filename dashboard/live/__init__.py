"""The live page: one HTML file with tiles, lists, frontier and wall, without a server."""
