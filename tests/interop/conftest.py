"""What every interop test needs: the peers, which `make interop` (`python -m bench.peers`) sets up first."""

import pytest

from bench import peers


@pytest.fixture(scope="session", autouse=True)
def installed_peers() -> None:
    """Fail at once, with the command to run, where the peers are not installed as pinned."""
    if not peers.ready():
        pytest.fail("the peers are not installed; run `python -m bench.peers` (or `make interop`, which does)")
