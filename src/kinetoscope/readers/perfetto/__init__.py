"""Perfetto's own format, a stream of protobuf messages."""
