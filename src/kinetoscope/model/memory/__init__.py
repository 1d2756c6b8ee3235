"""Memory of the allocators: events, levels, blocks and their owners."""
