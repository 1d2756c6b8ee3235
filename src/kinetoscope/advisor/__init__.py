"""From analyses to findings: what to change, what it will bring, and why we think so."""
