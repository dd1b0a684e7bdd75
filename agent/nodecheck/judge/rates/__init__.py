"""How fast weights are read and used up, by where they lie and how they are stored. Pure."""
