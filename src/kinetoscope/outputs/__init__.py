"""What is made of a whole job besides tables: files in other formats, the report, the summary."""
