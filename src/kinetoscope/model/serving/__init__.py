"""Serving: the steps of an inference engine, their batches, the time of each, and the gaps between them."""
