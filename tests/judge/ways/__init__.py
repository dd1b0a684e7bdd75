"""Each way to serve a model."""
