"""Coverage-guided fuzzing of everything that reads bytes it did not write: `make fuzz`.

`targets` are plain functions that tests/fuzz calls too; only `one` needs the fuzzer.
"""
