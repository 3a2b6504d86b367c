"""Signals, without the enumerations that `signal` makes of their numbers: they took a tenth of a launch.

What is here is what `signal` calls itself, so the rules are its own: numbers and handlers are plain integers and
functions. Another Python than CPython gets the documented module.
"""

from ..hints import TYPE_CHECKING

__all__ = ["signal"]

if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal
    except ImportError:
        import signal
