"""What rules ask a trace for."""
