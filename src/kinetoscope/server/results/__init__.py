"""Results of analyses as pages of rows."""
