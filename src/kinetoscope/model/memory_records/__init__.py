"""All that is recorded of the memory of a rank, by device: one record each, whoever tells it."""
