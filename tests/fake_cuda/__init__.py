"""A stand-in for CUDA's driver library and the cards that it describes."""
