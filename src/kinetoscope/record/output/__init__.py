"""From torch's export to the final file."""
