"""What a program is told, by the log, of a sidecar that stopped answering.

Leaving a block does not fail for it: what the sidecar acknowledged is saved, and the run can be resumed. But somebody
should look at that process, or at what it waits for.
"""

__all__ = ["tell_unanswered"]


def tell_unanswered(what: str) -> None:
    """Log a warning that begins with `what` happened to a sidecar that does not answer."""
    import logging  # here alone: a launch that goes well has no use for it

    logging.getLogger("memory_sidecar.harness").warning(
        "%s, as the memory sidecar does not answer; what it acknowledged is saved, and its runs can be resumed by "
        "another launch",
        what,
    )
