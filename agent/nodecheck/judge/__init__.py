"""Facts and workload to what each way to serve can reach, and the verdict. Pure arithmetic."""
