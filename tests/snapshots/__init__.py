"""Snapshots of the caching allocator with a known past.

`allocator` is torch's algorithm in plain Python; `process` runs programs on it, such as `training`; `everything` uses
each feature once. `writing` writes the result as each version of torch does, and `large` writes files of any size.
`failing` and `growing` are 60 jobs with known causes, and `python -m tests.snapshots.verdicts` shows what the analyses
say about them. `real` has recordings of torch's own allocator.
"""
