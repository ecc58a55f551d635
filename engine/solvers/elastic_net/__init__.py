"""The non-negative elastic net, solved exactly and by FISTA."""
