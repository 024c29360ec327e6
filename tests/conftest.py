"""Profiles: the default repeats the same examples everywhere; `make nightly` looks for new ones."""

from __future__ import annotations

import os

# Triton reads this when it is first imported; without a GPU its kernels are interpreted. The product reads no variable.
os.environ["TRITON_INTERPRET"] = "1"

from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "nightly", deadline=None, max_examples=5_000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")
