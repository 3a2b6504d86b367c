"""Many identities in one process: what binds each run to the memory of the identity that it is opened for."""

from collections.abc import Callable

from .backend.opened import Opened
from .exits import StartError
from .run.directory import identity_directory
from .run.session import Setting

__all__ = ["any_of", "apart", "check_many"]


def check_many(option: str | None, named: str | None, run: str | None) -> None:
    """Return if nothing else that is asked for contradicts `--many-identities`.

    `option` is what `--identity` said, `named` the identity that it or the configuration names, `run` what `--run`.

    Raises:
        StartError: something does.
    """
    if named is not None:
        where = "--identity" if option is not None else "identity in --config"
        raise StartError(
            f"{where} names one identity, and with --many-identities each run is opened for its own",
            "leave out one of the two",
        )
    if run is not None:
        raise StartError(
            "--run opens a run for the identity of the launch, and with --many-identities there is none",
            "open runs with memory-sidecar/run/open",
        )


def apart(journal_dir: str) -> Callable[[str | None], tuple[str, str]]:
    """Where the journals of any identity are."""

    def journal(identity: str | None) -> tuple[str, str]:
        from .backend.apart import check_apart

        check_apart(journal_dir, identity or "")
        return identity_directory(journal_dir, identity or ""), identity or ""

    return journal


def any_of(shared: Setting, open_for: Callable[[str], Opened] | None) -> Callable[[str | None], Setting]:
    """What binds a run to the memory of the identity that it is opened for, and to nothing else."""
    journal = apart(shared.journal_dir)

    def setting(named: str | None) -> Setting:
        directory, identity = journal(named)
        opened = (
            Opened(shared.store, shared.fingerprint, holds=shared.holds) if open_for is None else open_for(identity)
        )
        return shared._replace(
            store=opened.store,
            fingerprint=opened.fingerprint,
            holds=opened.holds,
            identity=identity,
            journal_dir=directory,
        )

    return setting
