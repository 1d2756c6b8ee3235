"""The ledger of runs, oldest first."""
