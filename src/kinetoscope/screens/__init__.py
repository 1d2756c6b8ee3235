"""How a summary, advice, a difference, a ledger look on a terminal."""
