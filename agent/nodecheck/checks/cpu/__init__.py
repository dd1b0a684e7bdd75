"""The processor: what it executes, how many cores there are, how fast they run."""
