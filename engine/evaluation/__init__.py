"""Evaluation of decoders on judged queries: metrics, sweeps, frontiers, statistics, tuning, tables and exports."""
