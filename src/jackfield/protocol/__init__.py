"""The sans-IO protocol: bytes to messages and back, and the rules of every revision as data."""
