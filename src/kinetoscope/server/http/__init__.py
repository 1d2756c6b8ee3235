"""Requests and responses: access, static files, errors."""
