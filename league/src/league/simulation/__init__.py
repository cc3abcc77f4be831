"""Known-truth worlds, and the tables that compare schemes, matchers and settings in them."""
