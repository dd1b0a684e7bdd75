"""What the kernel said about devices that other checks judge."""
