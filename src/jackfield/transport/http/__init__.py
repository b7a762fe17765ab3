"""Streamable HTTP: what serves and calls over it."""
