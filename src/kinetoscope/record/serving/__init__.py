"""Recordings of a server that runs, vLLM's or SGLang's, by the HTTP interface of its own profiler."""
