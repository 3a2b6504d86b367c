"""`memory-sidecar` and `python -m memory_sidecar`: the same program.

Until the version is checked, nothing here may need a newer Python than the oldest that could start it.
"""

import sys


def main() -> int:
    """Run the program and return its exit status."""
    if sys.version_info < (3, 11):  # noqa: UP036 - pip refuses an old Python; a copied tree or venv meets it here
        found = "%d.%d" % sys.version_info[:2]  # noqa: UP031
        sys.stderr.write(
            "memory-sidecar: this is Python " + found + " at " + sys.executable + ", and 3.11 or newer is needed; "
            "install with a newer one: python3.11 -m pip install memory-sidecar\n"
        )
        return 78
    from .system.signals import signal

    # Until there is somebody to say it in words, Ctrl-C just ends the process; where it was ignored it stays so.
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
