"""The demonstration: built-in models, and a worker and a verifier that decode together."""
