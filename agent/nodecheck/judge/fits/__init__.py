"""Whether a way to serve has the room that it needs. Pure."""
