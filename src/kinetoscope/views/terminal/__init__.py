"""Tables and charts as text."""
