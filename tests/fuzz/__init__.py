"""Mutilated traces, put to every verb: `python -m tests.fuzz [COUNT] [FIRST_SEED]`, or `make fuzz ARGS="20000 7"`.

Each document is drawn from its seed: the beginning and the end of a recorded trace, or a drawn one, in which values,
types, structure, text or bytes are changed, packed in one of many ways and named so or otherwise. Whatever it is, each
verb answers or refuses it in one line, without a warning, in bounded time and memory.
"""
