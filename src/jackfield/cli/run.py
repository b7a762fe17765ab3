"""`jackfield run TARGET`: serve a server from a name, a file or a module, on standard input and output or over HTTP."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ..protocol.errors import RegistrationError
from ..transport import stdio

TOKEN = "JACKFIELD_TOKEN"
"""The environment variable that holds the bearer token of a server over HTTP."""


class TargetError(Exception):
    """A target that names no server; the message says what would."""


def run_target(target: str) -> int:
    """Serve `target` until its client is gone. Returns the exit code: 0, 2 for no target, 3 where it cannot be served.

    The protocol's descriptors are taken over before anything of the target is imported, so that nothing it prints can
    reach them.
    """
    descriptors = stdio.take_over()
    return _run(target, lambda server: server.run(descriptors=descriptors))


def run_target_http(target: str, options: dict[str, Any]) -> int:
    """Serve `target` over HTTP until a signal asks for the end; `options` are those of `Server.run`.

    A token in the environment counts wherever `options` have none, or would have one made; it is taken out, so that no
    child of the server inherits it. Returns the exit code: 0, 2 for no target or options that cannot be, 3 where it
    cannot be served.
    """
    known = os.environ.pop(TOKEN, "")
    if known and options.get("token", True) is True:
        options = {**options, "token": known}
    return _run(target, lambda server: server.run("http", **options))


def _run(target: str, serve: Callable[[Any], None]) -> int:
    try:
        server = load(target)
        code = _serve(server, serve)
    except TargetError as fault:
        print(f"jackfield: {fault}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:  # the second one; the first ends the server cleanly
        code = 130
    except Exception as fault:
        traceback.print_exc()
        print(f"jackfield: {target} could not be served: {fault}", file=sys.stderr)
        code = 3
    if any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        _leave(code)
    return code


def _serve(server: Any, serve: Callable[[Any], None]) -> int:
    try:
        serve(server)
    except RegistrationError as fault:  # of the options; one of the target's own came from `load`
        print(f"jackfield: {fault}", file=sys.stderr)
        return 2
    return 0


def _leave(code: int) -> NoReturn:
    """End the process as an ordinary exit does, but for threads: one of the target's could keep it alive for ever."""
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - there is no public way, and what it does must be done
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # None, gone or closed
            stream.flush()
    os._exit(code)


def load(target: str) -> Any:
    """The server that `target` names. Raises TargetError, or what importing it raises."""
    from ..servers import READY

    target = READY.get(target, target)
    place, _, name = _split(target)
    if place.endswith(".py"):
        module = _load_file(Path(place))
    else:
        module = _load_module(place, target)
    return _find(module, name, target)


def _load_module(place: str, target: str) -> ModuleType:
    from ..servers import READY

    sys.path.insert(0, os.getcwd())
    try:
        if all(part.isidentifier() for part in place.split(".")):
            return importlib.import_module(place)
    except ModuleNotFoundError as missing:
        if not f"{place}.".startswith(f"{missing.name}."):
            raise
        if ":" in target or "." in place:
            raise TargetError(f"there is no module {place!r}") from None
    ready = ", ".join(sorted(READY))
    raise TargetError(f"{target!r} is no ready server ({ready}), and no module; a file is named file.py[:object]")


def _split(target: str) -> tuple[str, str, str]:
    """Part `place:object`; a drive letter's colon parts nothing."""
    drive, rest = (target[:2], target[2:]) if target[1:2] == ":" and target[2:3] in ("\\", "/") else ("", target)
    place, colon, name = rest.partition(":")
    return drive + place, colon, name


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"there is no file {path}")
    sys.path.insert(0, str(path.resolve().parent))
    # A file may be called as a module that others have imported already; those must keep theirs.
    name = path.stem if path.stem not in sys.modules else f"jackfield_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _find(module: ModuleType, name: str, target: str) -> Any:
    from ..server.server import Server

    if name:
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part, None)
        if not isinstance(found, Server):
            raise TargetError(f"{name!r} in {target} is no jackfield Server")
        return found
    servers = {key: value for key, value in vars(module).items() if isinstance(value, Server)}
    for usual in ("server", "mcp", "app"):
        if usual in servers:
            return servers[usual]
    if len({id(value) for value in servers.values()}) != 1:
        names = ", ".join(sorted(servers)) or "none"
        raise TargetError(
            f"{target} must have one jackfield Server (found: {names}); name it as {target.rstrip(':')}:object"
        )
    return next(iter(servers.values()))
