"""Declared tables of a trace, for SQL and Parquet."""
