"""Sets of intervals, and sweeps over them."""
