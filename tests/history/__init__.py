"""Runs whose causes are known: `python -m tests.history` says what the answers about a whole run make of them."""
