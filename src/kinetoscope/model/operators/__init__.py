"""Costs of operators, annotations and modules."""
