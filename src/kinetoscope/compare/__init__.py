"""Several runs beside one another: what changed between them, what each brought, and whether it is more than noise.

`owners` gives each instant of a step to one call, so that a difference of step times has no residue;
`diff` aligns the owners of two runs; `ledger` puts runs in a row; `delivery` holds what was promised against what came;
`gate` says whether something got worse. Where no steps are selected, warm-up is left out, as the advisor does.
"""
