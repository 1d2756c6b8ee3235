"""The critical path: its points, its graph, the path, and what-if estimates."""
