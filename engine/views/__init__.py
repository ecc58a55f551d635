"""Content of each chart and table as plain columns; no chart library, and no method named."""
