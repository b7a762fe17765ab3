"""Faults that users of MCP software have met, and threats, each as a situation of a whole server or client."""
