"""The loops that the runner's tests run on: uvloop where it is installed, and asyncio's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest


@pytest.hookimpl
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both, for what depends on how a transport ends."""
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return factories
    return factories | {"uvloop": uvloop.new_event_loop}
