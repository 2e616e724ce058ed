"""Property tests judge results, not the speed of the machine they run on."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("lumia", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lumia")
