"""Everything that touches the machine: files, processes, NVML, the C kernels."""
