"""nodecheck: what holds a node back before a model is deployed on it."""

__version__ = "0.1.0"
