"""Ways in for other projects. Nothing here is imported unless it is asked for."""
