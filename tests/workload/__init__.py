"""What models weigh, against exact sums and hostile files."""
