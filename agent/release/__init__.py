"""What `make dist` makes beside the wheel. It is run in a checkout and goes into no wheel."""
