"""Serving: tools, resources, prompts and completions over one engine for both eras."""
