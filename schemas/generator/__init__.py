"""Turns the `.ksy` files into the code and the pages that depend on the layout; run as `python -m schemas.generator`."""
