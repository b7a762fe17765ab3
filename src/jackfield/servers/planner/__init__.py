"""The planner: a model drafts daily plans, and this server owns their contract, their validator and their store."""
