"""The regression gate: baseline, limits, causes."""
