"""SQL queries, in a process of their own."""
