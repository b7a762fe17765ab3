"""What moves messages: connections over stdio and in memory; knows nothing of tools."""
