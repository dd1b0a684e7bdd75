"""Which layers of a GGUF model look back no further than a window. Pure.

Source: llama.cpp, src/models/, and load_swa_pattern and set_swa_pattern.
"""

from __future__ import annotations

from nodecheck.model import Struct
from nodecheck.workload.gguf.keys import Keys

_WINDOW = "attention.sliding_window"
_PATTERN = "attention.sliding_window_pattern"


class Layout(Struct, frozen=True, kw_only=True):
    """Every `period`th layer sees all: the last of each period, or the first (`full_first`).

    A period of 0 is a window everywhere, None is for the file to say. `default` is the window
    where the file names none, `fixed` the one whatever it says.
    """

    period: int | None = None
    full_first: bool = False
    default: int | None = None
    fixed: int | None = None
    optional: bool = False
    """Without a window in the file, there is none."""


LAYOUTS = {
    "afmoe": Layout(period=4, optional=True),
    "cohere2": Layout(period=4),
    "cohere2moe": Layout(period=4, full_first=True),
    "exaone-moe": Layout(period=4),
    "exaone4": Layout(period=4, default=4096),
    "gemma2": Layout(period=2, default=4096),
    "gemma3": Layout(period=6, optional=True),
    "gemma3n": Layout(period=5),
    "gemma4": Layout(),
    "gpt-oss": Layout(period=2),
    "granite_swa": Layout(),
    "laguna": Layout(period=4, full_first=True, optional=True),
    "lfm2": Layout(period=0, optional=True),
    "llama4": Layout(period=4, default=8192, fixed=8192),
    "maple": Layout(),
    "mellum": Layout(period=4, optional=True),
    "mimo2": Layout(),
    "muse-glimmer": Layout(period=4),
    "olmo2": Layout(period=4, optional=True),
    "plamo3": Layout(period=8, optional=True),
    "smallthinker": Layout(period=4, full_first=True, fixed=4096, optional=True),
    "spark2_5": Layout(),
    "step35": Layout(),
}
"""Architectures for which llama.cpp keeps a window. Source: llama.cpp, src/models/*.cpp."""

EXAONE4_LAYERS_WITH_WINDOW = 64
"""Only the 32B model has one. Source: llama.cpp, src/models/exaone4.cpp."""


class Windows(Struct, frozen=True, kw_only=True):
    """The window of each layer, and whether llama.cpp keeps to it."""

    of: tuple[int | None, ...]
    llama_cpp: bool = True

    def in_llama_cpp(self, number: int) -> bool:
        """Whether llama.cpp treats this layer as one with a window."""
        return self.llama_cpp and self.of[number] is not None


def windows(keys: Keys, layers: int) -> Windows:
    """NotEnoughMetadata where a model of this architecture must say its window and does not."""
    layout = LAYOUTS.get(keys.architecture)
    if keys.architecture == "exaone4" and layers != EXAONE4_LAYERS_WITH_WINDOW:
        return Windows(of=(None,) * layers)
    if layout is None:
        return _ignored(keys, layers)
    if not (window := _size(keys, layout)):
        return Windows(of=(None,) * layers)
    return Windows(of=tuple(window if near else None for near in _near(keys, layout, layers)))


def _ignored(keys: Keys, layers: int) -> Windows:
    """A window that llama.cpp does not keep to."""
    if not (window := keys.given(_WINDOW)):
        return Windows(of=(None,) * layers)
    near = _near(keys, Layout(period=0), layers)
    return Windows(of=tuple(window if each else None for each in near), llama_cpp=False)


def _size(keys: Keys, layout: Layout) -> int | None:
    window = keys.given(_WINDOW)
    if window is None:
        if layout.default is None and not layout.optional:
            raise keys.missing(_WINDOW)
        window = layout.default
    return layout.fixed if window and layout.fixed else window


def _near(keys: Keys, layout: Layout, layers: int) -> tuple[bool, ...]:
    """Which layers have the window."""
    pattern = keys.pattern(_PATTERN, layers)
    if isinstance(pattern, tuple):
        return pattern[:layers]
    period = layout.period if pattern is None else pattern
    if period is None:
        raise keys.missing(_PATTERN)
    if not period:
        return (True,) * layers
    full = 0 if layout.full_first else period - 1
    return tuple(number % period != full for number in range(layers))
