"""The daemon: checks this node at intervals in a child, and serves the last report. A roof room."""
