"""Tests that drive a browser: a package, so that what its tests share ends with the last of them."""
