"""Memory snapshots: what the caching allocator of torch recorded of itself, and what follows from it."""
