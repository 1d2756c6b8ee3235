"""Charts as SVG and Vega-Lite."""
