"""Evidence that rules ask a trace for."""
