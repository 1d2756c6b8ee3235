"""The same collective on all ranks, and the ranks' clocks."""
