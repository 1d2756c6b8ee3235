"""Bytes of local and remote files, decompressed."""
