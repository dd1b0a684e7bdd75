"""The page that the daemon serves: the last report beside what the history tells."""
