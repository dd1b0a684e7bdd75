"""A model's tensors and caches, of a family's traits and a configuration's keys."""
