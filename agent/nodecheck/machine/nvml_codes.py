"""NVML's errors by name, and which of them mean more than that one call failed.

Source: nvmlReturn_t of nvml.h (r615).
"""

from __future__ import annotations

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 1, 2, 3, 4
INSUFFICIENT_POWER, DRIVER_NOT_LOADED = 8, 9
IRQ_ISSUE, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, CORRUPTED_INFOROM = 11, 12, 13, 14
GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH = 15, 16, 18
ARGUMENT_VERSION_MISMATCH, DEPRECATED, UNKNOWN = 25, 26, 999

NEUTRAL = (
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    FUNCTION_NOT_FOUND,
    ARGUMENT_VERSION_MISMATCH,
    DEPRECATED,
)
"""Not faults: an argument, a feature, a function or a structure that this driver does not know."""

NO_SUCH_LINK = (INVALID_ARGUMENT, NOT_SUPPORTED)
"""What the number of a link that a card does not have is refused with."""

DRIVER_GONE = (UNINITIALIZED, DRIVER_NOT_LOADED, VERSION_MISMATCH)
"""Errors of the driver as a whole, whichever card was asked for."""

ALL_ONES = ((1 << 32) - 1, (1 << 64) - 1)
"""What a register without a value reads, and a mask or a count of a driver that went wrong."""

CARD_FAULTS = (INSUFFICIENT_POWER, IRQ_ISSUE, CORRUPTED_INFOROM, RESET_REQUIRED)
"""Errors that tell of the card, whichever of its fields was asked for."""
