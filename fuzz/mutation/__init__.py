"""Mutations that know the schemas: what is changed is changed by name, and all that follows from it can be made right again."""

from __future__ import annotations

from fuzz.mutation.mutator import mutated

__all__ = ["mutated"]
