"""What a program that writes and reads text may ask about traces: a few tools, read-only, with bounded answers.

It knows no protocol (`integrations.mcp` does), and no files but those below the folders that it was given. What comes
out of a trace may have been written by anyone: names are printable, shortened, and said to be data.
"""
