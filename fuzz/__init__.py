"""Fuzzing: harnesses that state one invariant each, fed with mutated vectors; `python -m fuzz --seconds 60`."""
