"""Sentences that every face says: pages, the summary, the timeline."""
