"""The official conformance suite: the server and client that it judges, and the strict runner that judges the suite."""
