"""There and back: a project to a machine without network, and home again with what it measured there."""
