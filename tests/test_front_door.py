"""What `import jackfield` offers, and what importing costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import jackfield


def modules_after(statement: str) -> set[str]:
    """All modules of a fresh interpreter after `statement`."""
    command = [sys.executable, "-c", f"import sys; {statement}; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", jackfield.__all__)
def test_every_name_of_the_front_door_is_there(name: str) -> None:
    """Each name in `__all__` can be imported, and is listed by dir()."""
    assert getattr(jackfield, name) is not None
    assert name in dir(jackfield)


def test_the_front_door_offers_nothing_else() -> None:
    """The lazy names and `__all__` are the same; a name that is not there is an AttributeError that says so."""
    assert sorted(jackfield.__all__) == sorted([*jackfield._NAMES, "__version__"])
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = jackfield.Nothing  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_of_it() -> None:
    """`import jackfield` alone is cheap: no room of the house is entered."""
    assert {name for name in modules_after("import jackfield") if name.startswith("jackfield")} == {
        "jackfield",
        "jackfield._version",
    }


def test_the_protocol_does_no_input_or_output() -> None:
    """`import jackfield.protocol` and its modules stay without asyncio, sockets and threads of ours, and small."""
    names = ("jsonrpc", "framing", "methods", "revisions", "wire", "uri", "schema", "limits", "errors")
    loaded = modules_after("; ".join(f"import jackfield.protocol.{name}" for name in names))
    assert not loaded & {"asyncio", "socket", "ssl", "selectors", "subprocess", "http.client", "jsonschema_rs"}
    assert len(loaded - modules_after("pass")) <= 110
    assert len(modules_after("import jackfield.protocol") - modules_after("pass")) <= 90


def test_a_server_does_not_import_what_it_does_not_need() -> None:
    """`from jackfield import Server` stays within 200 modules, none of them heavy."""
    loaded = modules_after("from jackfield import Server")
    assert not loaded & {"aiohttp", "uvicorn", "jsonschema_rs", "cryptography", "pydantic", "jackfield.client.client"}
    assert len(loaded) <= 200


def test_nothing_is_opened_or_fetched_because_a_peer_says_so() -> None:
    """No module has a way to show a page, to fetch one besides its own connections, or to run a shell (ELC-7, SEC-3,
    SEC-4).
    """
    named: set[str] = set()
    for path in Path(jackfield.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                named.update(alias.name for alias in node.names)
            elif isinstance(node, ast.Attribute):
                named.add(node.attr)
            elif isinstance(node, ast.keyword) and node.arg is not None:
                named.add(node.arg)
    assert "getproxies" in named
    assert not named & {"webbrowser", "urlopen", "urlretrieve", "startfile", "system", "popen", "shell"}
