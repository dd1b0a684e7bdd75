# What csrc/native.cdef.h declares; native.py gives it types.
from typing import Any

ffi: Any
lib: Any
