"""Calling: one client for servers of either era."""
