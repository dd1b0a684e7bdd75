"""llama.cpp from the sdist of llama-cpp-python, its CPU library once per instruction set."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

FOLDER = Path(os.environ.get("NODECHECK_ENGINES_DIR", "build/engines")).resolve()
"""Where the source, the builds, the models and the results stay: outside git."""

RELEASE = "llama-cpp-python==0.3.36"

ALL_OFF = ("SSE42", "AVX", "AVX2", "FMA", "F16C", "BMI2")
"""What CMake turns on of itself where GGML_NATIVE is off."""

FLAVOURS: dict[str, tuple[str, ...]] = {
    "sse2": (),
    "sse42": ("SSE42",),
    "avx": ("SSE42", "AVX"),
    "avx2": ALL_OFF,
    "native": ("NATIVE",),
}
"""GGML options that are on in each; only libggml-cpu.so is compiled with them."""

COMMON = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    # The sdist has no git folder, for want of which CMake would run again for ever.
    "-DCMAKE_SUPPRESS_REGENERATION=ON",
    *(f"-DLLAMA_{part}=OFF" for part in ("CURL", "OPENSSL")),
    *(f"-DLLAMA_BUILD_{part}=OFF" for part in ("TESTS", "SERVER", "EXAMPLES")),
)


def build() -> None:
    """Build what is missing."""
    if not program("llama-quantize").exists():
        _compile("sse2", "llama-bench", "llama-quantize")
    for flavour in FLAVOURS:
        cpu_library(flavour)


def cpu_library(flavour: str) -> Path:
    """The folder of libggml-cpu.so, which is built where it is missing."""
    folder = FOLDER / "lib" / flavour
    if not folder.exists():
        _compile(flavour, "ggml-cpu")
        shutil.copytree(FOLDER / "build" / flavour / "bin", folder, ignore=_not_its_library)
    return folder


def library_path(flavour: str) -> str:
    """For LD_LIBRARY_PATH: the CPU library of the flavour before what all have in common."""
    return f"{FOLDER}/lib/{flavour}:{FOLDER}/build/sse2/bin"


def program(name: str) -> Path:
    """llama-bench or llama-quantize."""
    return FOLDER / "build" / "sse2" / "bin" / name


def _not_its_library(_: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith("libggml-cpu.so")]


def _compile(flavour: str, *targets: str) -> None:
    tree = FOLDER / "build" / flavour
    on = FLAVOURS[flavour]
    options = [f"-DGGML_{o}={'ON' if o in on else 'OFF'}" for o in ("NATIVE", *ALL_OFF)]
    tools = Path(sys.executable).parent
    cmake, ninja = str(tools / "cmake"), f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"
    configure = [cmake, "-S", str(_source()), "-B", str(tree), "-G", "Ninja", ninja]
    subprocess.run([*configure, *COMMON, *options], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", tree, "--target", *targets], check=True)


def _source() -> Path:
    """llama.cpp's folder, downloaded and unpacked where it is not yet."""
    source = FOLDER / "source"
    if not source.exists():
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*pip, "--dest", FOLDER, RELEASE], check=True)
        (archive,) = FOLDER.glob("llama_cpp_python-*.tar.gz")
        with tarfile.open(archive) as tar:
            inner = archive.name.removesuffix(".tar.gz") + "/vendor/llama.cpp"
            members = [m for m in tar if m.name.startswith(inner + "/")]
            tar.extractall(FOLDER / "unpacked", members, filter="data")
        (FOLDER / "unpacked" / inner).rename(source)
    return source
