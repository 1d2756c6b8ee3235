"""Collectives of one rank: attributes, process groups, payload, calls, bandwidth."""
