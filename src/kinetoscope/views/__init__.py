"""Result and schema → terminal, chart, notebook, files. Draws and never computes; knows no analysis by name."""
