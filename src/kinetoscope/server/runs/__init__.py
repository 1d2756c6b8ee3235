"""The runs that the server offers, and the answers that it keeps."""
