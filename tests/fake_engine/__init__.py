"""A stand-in for an engine: a process that computes, waits or reads, as llama.cpp's server does."""
