"""A zoo: small programs of frameworks as people write them, recorded in each way, and what is said of them.

`programs/` are ordinary scripts. `python -m tests.zoo` records them, checks each recording, and writes `docs/zoo.md`.
"""
