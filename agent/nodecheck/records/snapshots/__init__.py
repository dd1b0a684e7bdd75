"""Reports of a node as they are kept: one SQLite file, safe under kills and full disks."""
