"""What decoders reach on judged queries: metrics, sweeps, frontiers, statistics, tuning, tables and exports."""
