"""The trace that a client's requests carry (TRC-1): asked of the application for each of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ..protocol.meta import Trace, trace_of

log = logging.getLogger("jackfield")

OnTrace = Callable[[], Trace | Mapping[str, str] | None]
"""Where the application is in its own trace: a dict with `traceparent`, `tracestate` and `baggage`, such as
OpenTelemetry's `inject` fills, or the `Trace` of a request that is being served, of which the baggage stays here."""


def traced(trace: OnTrace) -> dict[str, str]:
    """The members of `_meta` that say where a request belongs. What fails or has no W3C format fails no request."""
    try:
        found = trace()
        if isinstance(found, Trace):
            return found.carrier
        known = trace_of(found or {})
    except Exception:
        log.exception("the trace callback failed")
        return {}
    if known is None:
        return {}
    return known.carrier if known.baggage is None else {**known.carrier, "baggage": known.baggage}
