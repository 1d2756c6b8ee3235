"""Memory of the allocators: events, levels, blocks and who holds them."""
