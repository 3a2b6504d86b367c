"""Fuzz one target in this process, under the fuzzer's own options: `python -m fuzz.one TARGET [option...]`."""

import sys

import atheris

# What the fuzzer watches: the readers, the pure Python that they read with, and the checks.
with atheris.instrument_imports(
    include=["memory_sidecar", "exposure_policy", "yaml", "urllib.parse", "fuzz"], enable_loader_override=False
):
    import yaml  # noqa: F401 - the readers import it when they first need it

    from fuzz.targets import TARGETS

if __name__ == "__main__":
    name, *options = sys.argv[1:]
    # The first word is the command with which the fuzzer starts itself again.
    atheris.Setup([f"{sys.executable} -m fuzz.one {name}", *options], TARGETS[name])
    atheris.Fuzz()
