"""Write the C source of the extension module: generate.py CDEF OUTPUT.

The declarations are cffi's input as they are; nodecheck.h gives the compiler the same ones.
"""

import sys
from pathlib import Path

from cffi import FFI

cdef, output = sys.argv[1:]
ffi = FFI()
ffi.cdef(Path(cdef).read_text(encoding="utf-8"))
ffi.set_source("nodecheck._native", '#include "nodecheck.h"')
ffi.emit_c_code(output)
