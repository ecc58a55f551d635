"""What each chart and table shows, as plain columns; no chart library, and no method named."""
