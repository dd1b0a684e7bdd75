"""A stand-in for NVIDIA's management library and the cards that it describes."""
