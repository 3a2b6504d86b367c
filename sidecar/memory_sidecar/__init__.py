"""Private, durable memory for agents: a stdio sidecar that one trusted harness launches.

Import `memory_sidecar.harness` to launch it from Python. This module imports nothing, so that
`python -m memory_sidecar serve` pays only for what it uses.
"""
