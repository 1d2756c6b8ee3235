"""Speed and peak memory of Kinetoscope, the traces to measure them on, and the peers beside it. See README.md."""
