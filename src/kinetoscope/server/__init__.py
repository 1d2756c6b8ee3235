"""The local web server: runs, results, pages and tiles as JSON, and the built page. It knows no analysis by name."""
