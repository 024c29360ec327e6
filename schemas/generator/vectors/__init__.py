"""What `schemas/vectors/` is made of: conversations built from the schema alone, and one change in each."""
