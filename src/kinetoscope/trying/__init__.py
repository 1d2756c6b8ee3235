"""The driver of trials: it runs a program again and again, changed and unchanged in turns, and keeps what helps."""
