"""The exceptions: what they carry, and what is refused."""

import pytest

from jackfield.protocol.errors import PeerError, ProtocolError


def test_a_protocol_error_is_a_code_and_a_text() -> None:
    """A mistaken order of the arguments is told at once, not sent to the peer (BASE-7)."""
    with pytest.raises(TypeError, match="the code is an integer"):
        ProtocolError("no", 5)  # type: ignore[arg-type]


def test_what_a_peer_said_cannot_control_a_terminal() -> None:
    """The text of a PeerError is escaped where it is shown, and whole in `message` (O02, P06)."""
    error = PeerError(-1, "bad\n\x1b[2Jthing")
    assert error.message == "bad\n\x1b[2Jthing"
    assert str(error) == "bad\\n\\x1b[2Jthing (-1)"
