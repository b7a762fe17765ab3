"""The table of the ready servers."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

from jackfield.servers import READY


@pytest.mark.parametrize("name", sorted(READY))
def test_each_name_leads_to_a_server(name: str):
    """Every entry names a module and an object of it, and that object is a server."""
    from jackfield import Server

    module, _, attribute = READY[name].partition(":")
    assert isinstance(getattr(importlib.import_module(module), attribute), Server)


def test_the_table_imports_no_server():
    """Looking at the names costs the import of none of them."""
    code = "import sys, jackfield.servers; print(*(name for name in sys.modules if name.startswith('jackfield.')))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=30
    )
    loaded = found.stdout.split()
    assert "jackfield.servers" in loaded
    assert not [name for name in loaded if name.startswith("jackfield.servers.")]
