"""Pickles that torch writes, and the same as JSON, read without unpickling: a machine whose objects are columns."""
