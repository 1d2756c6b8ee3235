"""Snapshots of the caching allocator with a known past.

`allocator` is torch's algorithm in plain Python, `process` runs programs on it, `training` is one, `writing` has the
forms in which torch's versions write what came of it, `large` writes files of any size.
"""
