"""What every test runs under: the profiles of hypothesis."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code, so nothing here has a deadline.
_TIMELESS = [HealthCheck.too_slow]
settings.register_profile("local", deadline=None, suppress_health_check=_TIMELESS)
settings.register_profile(
    "ci", deadline=None, suppress_health_check=_TIMELESS, derandomize=True, database=None, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "local")
