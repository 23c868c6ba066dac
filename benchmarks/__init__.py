"""Benchmarks: speed as ratios against the plain version in one run. Not in the wheel. Run with `make bench`."""
