"""Blocks and sentences that several pages share."""
