"""Each way to serve a model: what it reaches, what limits it, what would move it. Pure."""
