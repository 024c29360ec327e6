"""A deterministic simulator: both ends, slots and ranks in one process, on virtual time, from one seed. docs/simulator.md."""
