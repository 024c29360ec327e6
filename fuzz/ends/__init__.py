"""The real ends under test: each is driven by commands of its owner and by the bytes of a hostile peer."""
