"""Side-by-side benchmarks against other MCP toolkits; `python -m bench` runs them."""
