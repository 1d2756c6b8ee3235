"""Recordings that other profilers keep as SQLite: Nsight Systems' exports, and ROCm's rocpd."""
