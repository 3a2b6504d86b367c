"""The only place where objects are built: from arguments and configuration to a service, step by step.

`prepare` decides where everything is; `Plan.start` opens the store and makes the directory of the journals, then gives
up every right that serving it doesn't need, and only then lets the first thread start. Whatever connection a backend
needs is made here and closed here.
"""

import os
from collections.abc import Sequence

from .backend.choose import backend_of, must_be_named, open_backend, open_many, warnings
from .backend.opened import BackendError, Opened, Running
from .config import LAUNCHED, Config, ConfigError, load
from .exits import StartError
from .hints import TYPE_CHECKING
from .named_tuple import NamedTuple
from .observe import gauges, log
from .options import OptionsError, age
from .places import default_journal_dir, keep_apart, make_journal_dir, neighbours
from .remedy import RemedyError
from .run.directory import identity_directory
from .run.session import Setting
from .run.terms import is_run_id
from .store.authority import Store
from .store.rules import MAX_ENTRIES, is_key
from .system import allocator, files
from .system.lockdown import Mode
from .tools.catalog import Catalog
from .wire.service import Service

if TYPE_CHECKING:
    from .launched_by import Application
    from .observe.otlp import Prepared

__all__ = [
    "Arguments",
    "Plan",
    "default_journal_dir",
    "launcher",
    "lock_down",
    "prepare",
    "settle",
]


class Arguments(NamedTuple):
    """What `serve` and `info` are told on the command line. None where nothing was said."""

    config: str | None = None
    identity: str | None = None
    default_identity: str | None = None
    store_dir: str | None = None
    journal_dir: str | None = None
    run: str | None = None
    keep_runs: str | None = None
    lockdown: str | None = None
    many_identities: str | None = None
    """Anything but None: each run is opened for an identity that the harness names."""
    end: str = ""
    """Which of two memories these options mean, for a command that is given two: `from` or `to`."""

    def option(self, name: str) -> str:
        """How the command line spells the option `name`, for messages."""
        if not self.end:
            return f"--{name}"
        return f"--{self.end}" if name == "config" else f"--{self.end}-{name}"


class Plan(NamedTuple):
    """Everything decided, nothing opened."""

    config: Config
    identity: str | None
    """None if each run is opened for an identity of its own."""
    store_dir: str | None
    journal_dir: str
    """Where the journals of this identity are, or those of all of them in directories of their own."""
    run: str | None
    keep_runs: float | None
    """Seconds after which the journal of a run that is over goes; None for never."""
    lockdown: Mode

    def _open(self) -> Running:
        if self.identity is None:
            return open_many(self.config, self.store_dir, locked=self.lockdown != "off")
        return open_backend(self.config, self.identity, self.store_dir, locked=self.lockdown != "off")

    def _warn(self) -> None:
        """Tell the operator what he may not have meant of the place."""
        if self.config.memory.enabled:
            for warning in warnings(self.config, self.identity, lambda: neighbours(self.journal_dir)):
                log.warning("of this memory is to be known", what=warning)

    def start(self) -> Service:
        """Open the store, lock the process down, and return the service.

        Raises:
            StartError: with the full remedy.
        """
        memory = self.config.memory
        telemetry = prepare_telemetry() if memory.enabled else None
        try:
            running = self._open() if memory.enabled else _nothing()
        except BackendError as error:
            raise StartError(error.problem, error.remedy) from error
        self._warn()
        # First whether journals may be there: a memory that is only read gets no directory either.
        keep_apart(running.only_read, self.journal_dir)
        above = self.journal_dir if self.identity is None else os.path.dirname(self.journal_dir)
        make_journal_dir(above, self.identity)
        guarded = running.opened.store.guard
        catalog = Catalog(enabled=memory.enabled, read_only=memory.read_only, guarded=guarded)
        directories = (*running.directories, self.journal_dir)  # runs are journaled with no memory too
        ports = running.ports if telemetry is None else (*(running.ports or ()), *telemetry.ports)
        held = lock_down(self.lockdown, directories, ports, grow=self.identity is None)
        allocator.settle()
        running.begin()
        setting = Setting(
            store=running.opened.store,
            fingerprint=running.opened.fingerprint,
            catalog=catalog,
            with_index=not memory.no_index,
            identity=self.identity or "",
            journal_dir=self.journal_dir,
            lockdown=held,
            holds=running.opened.holds,
        )
        if self.keep_runs is not None:
            from .run import retention

            retention.begin(self.journal_dir, self.identity, self.keep_runs)
        info = setting.store.info()
        told = None if telemetry is None else telemetry.begin(*info)
        gauges.see("notes.limit", MAX_ENTRIES)
        if self.identity is None:
            from .many import any_of, apart

            gauges.leave_out_notes()
            journal, of, run = apart(self.journal_dir), any_of(setting, running.open_for), ""
        else:
            own = (self.journal_dir, self.identity)
            journal, of, run = (lambda _: own), (lambda _: setting), self.run or _generated_run()
        return Service(catalog, info, held, of, journal, run, self.run is not None, running.close, told)


def prepare(arguments: Arguments) -> Plan:
    """Read the configuration, settle identity and places. Nothing is made yet.

    Raises:
        StartError: with the full remedy.
    """
    config, named = settle(arguments)
    many = arguments.many_identities is not None
    if many:
        from .many import check_many

        check_many(arguments.identity, named, arguments.run)
    if arguments.run is not None and not is_run_id(arguments.run):
        raise StartError("--run is an id of 1 to 128 letters, digits, _ and -, starting with a letter or digit")
    keep_runs = _keep_runs(arguments, config)
    journal_dir = arguments.journal_dir or default_journal_dir(arguments.store_dir)
    identity = None if many else _whose(arguments, config, named)
    try:
        journal_dir = files.absolute(journal_dir)
    except RemedyError as error:
        raise StartError(f"the journal directory {error.problem}", error.remedy) from error
    own = journal_dir if identity is None else identity_directory(journal_dir, identity)
    mode = _mode(arguments.lockdown)
    return Plan(config, identity, arguments.store_dir, own, arguments.run, keep_runs, mode)


def _keep_runs(arguments: Arguments, config: Config) -> float | None:
    """For how many seconds journals of runs that are over are kept; None for ever.

    Raises:
        StartError: what the command line says is no age.
    """
    said = arguments.keep_runs if arguments.keep_runs is not None else config.memory.keep_runs
    try:
        return None if said is None else age(said, "--keep-runs")
    except OptionsError as error:
        raise StartError(error.problem, error.remedy) from error


def _mode(word: str | None) -> Mode:
    """The `--lockdown` that was asked for; `auto` by default.

    Raises:
        StartError: there is no such mode.
    """
    modes: dict[str | None, Mode] = {None: "auto", "auto": "auto", "require": "require", "off": "off"}
    if word not in modes:
        raise StartError(f"--lockdown {word} is not a mode", "use auto, require or off")
    return modes[word]


def lock_down(
    mode: Mode, directories: Sequence[str] = (), ports: Sequence[int] | None = None, *, grow: bool = False
) -> str:
    """Give up every right but writing in `directories` and connecting to `ports`; say in one line what holds.

    `grow`: directories may be made there too.

    Raises:
        StartError: `require` asks for what this system does not offer, or a lock does not hold.
    """
    from .system.inherited import threads
    from .system.lockdown import LockdownError, lock

    if mode != "off" and (running := threads()):
        raise StartError(
            f"threads run already in this process ({', '.join(running)}), and would keep the rights that it gives up",
            "launch it without what starts them, such as ddtrace-run or opentelemetry-instrument, "
            "or with --lockdown off",
        )
    try:
        return lock(directories, ports, mode, grow=grow).describe()
    except LockdownError as error:
        raise StartError(str(error)) from error


def prepare_telemetry() -> "Prepared | None":
    """What the standard variables ask for. Without any of them nothing is looked at and nothing loaded.

    Before a backend looks up its broker's name: how the C library looks names up is settled at the first one.
    """
    if not any(name.startswith("OTEL_") for name in os.environ):
        return None
    from .observe.otlp import prepare as prepare_otlp

    return prepare_otlp(os.environ)


def settle(arguments: Arguments) -> tuple[Config, str | None]:
    """The configuration, and the identity that it or the command line names.

    Raises:
        StartError: the configuration cannot be used.
    """
    try:
        config = LAUNCHED if arguments.config is None else load(arguments.config, arguments.option("config"))
    except ConfigError as error:
        raise StartError(error.problem, error.remedy) from error
    return config, arguments.identity or config.identity


def _whose(arguments: Arguments, config: Config, named: str | None) -> str:
    """The identity: as named, else of the application that launched this process where that is certain.

    Raises:
        StartError: it is not certain, or cannot be one; or this backend wants it named, or does not exist.
    """
    try:
        if config.memory.enabled:
            backend_of(config, serving=True)
        if named is None and config.memory.enabled and (instead := must_be_named(config)):
            raise StartError(
                "no identity is named, and in a store that agents share it must be",
                f"set --identity or identity in --config, or {instead}",
            )
    except BackendError as error:
        raise StartError(error.problem, error.remedy) from error
    identity = named or arguments.default_identity
    if not identity:
        found = launcher()
        if found.why_not:
            raise StartError(
                f"there is no identity to keep memories under: {found.why_not}",
                "set --identity, or identity in --config",
            )
        identity = found.name
    if not is_key(identity):
        raise StartError(
            f"the identity {identity!r} cannot name a directory",
            "set identity to letters, digits and . _ = - or name another with --identity",
        )
    return identity


def launcher() -> "Application":
    """The application that launched this process, where the system tells (Linux does)."""
    from .launched_by import application

    try:
        with open(f"/proc/{os.getppid()}/cmdline", "rb") as file:
            words = os.fsdecode(file.read(65536)).split("\0")
    except OSError:
        words = []
    return application(words)


def _generated_run() -> str:
    import time

    return time.strftime("run-%Y%m%dT%H%M%SZ-", time.gmtime()) + os.urandom(4).hex()


def _nothing() -> Running:
    """What serves a memory that is not enabled."""
    from .store.nowhere import Nowhere

    return Running(Opened(Store(Nowhere("Memory is not enabled.")), "none"), lambda: None, lambda: None)
