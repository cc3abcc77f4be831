"""No test depends on how fast Hypothesis draws an example or runs it."""

from importlib.util import find_spec

if find_spec("hypothesis"):  # some folders' tests need none
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "patient", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("patient")
