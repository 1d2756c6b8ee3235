"""Recording without a line of code, on request."""
