"""Links, snapshots and exports."""
