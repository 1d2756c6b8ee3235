"""Pages of answers that have no view in the browser, or another one there: a difference, a gate, a ledger."""
