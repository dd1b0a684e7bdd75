"""Room for models, and whether the mounts that hold them answer and can be written."""
