"""What is said of an engine that was watched."""
