"""Chrome trace JSON → `Trace`."""
