"""Machines as people run programs on them: containers, services, sandboxes, wrappers, missing system calls.

Each is a command that is put in front of the sidecar's; the real program where there is one for the purpose, namespaces
of the kernel and a filter of system calls (`confined.py`) elsewhere.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["MACHINES", "Machine", "command", "service_calls"]

CONFINED: Final = (sys.executable, str(Path(__file__).with_name("confined.py")))

SANDBOX: Final = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp")
LANDLOCK: Final = ",".join(SANDBOX[:3])
NOT_IN_GVISOR: Final = (
    f"{LANDLOCK},renameat2,pidfd_open,pidfd_send_signal,openat2,io_uring_setup,io_uring_enter,io_uring_register,"
    "memfd_create,close_range,statx,faccessat2,clone3,rseq,copy_file_range"
)
NOT_ON_A_BSD: Final = f"{NOT_IN_GVISOR},seccomp,prctl,capget,capset"

STRANGE_UID: Final = 61234


class Machine(NamedTuple):
    """`{base}` is the directory of the memory, `{place}` the one it and the ticket are in, `{ticket}` the ticket."""

    prefix: tuple[str, ...]
    lockdown: str = 'lockdown="Landlock'
    """Words of what the log says the lockdown holds."""
    refused: str = ""
    """Words of the refusal; "" where it serves."""
    user: int | None = None
    """Whose the memory and the ticket are."""


HOMES: Final = [
    home
    for home in ("/home", "/root", "/run/user")
    if Path(home).is_dir()
    and not any(Path(place).resolve().is_relative_to(home) for place in (sys.base_prefix, sys.prefix, *sys.path))
]
"""What `ProtectHome` hides, but for a home in which the interpreter or this checkout lies."""


def within(script: str) -> tuple[str, ...]:
    """A mount namespace of its own, put up by a script."""
    return ("unshare", "--mount", "sh", "-ec", f'mount --make-rprivate /; {script}\nexec "$@"', "sh")


MACHINES: Final[dict[str, Machine]] = {
    # --- containers
    "process 1 of a container": Machine(("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")),
    "process 1, with tini": Machine(("tini", "-s", "--")),
    "process 1, with catatonit": Machine(("catatonit", "--")),
    "a root directory for reading only": Machine(within("mount -o bind {place} {place}; mount -o remount,ro,bind /")),
    "a ticket that can only be read": Machine(
        within("mount -o bind {base} {base}; mount -o remount,ro,bind /; mount -t tmpfs -o ro none /dev/shm"),
        refused="the ticket cannot be opened for reading and writing: Read-only file system",
    ),
    "no /proc": Machine(within("mount -t tmpfs -o ro none /proc")),
    "no /dev/shm": Machine(within("mount -t tmpfs -o ro none /dev/shm")),
    "no /dev": Machine(within("mount -t tmpfs -o ro none /dev")),
    "no /proc, /dev and /sys": Machine(within("for d in proc dev sys; do mount -t tmpfs -o ro none /$d; done")),
    "a user that nobody knows": Machine(
        (
            *("setpriv", f"--reuid={STRANGE_UID}", f"--regid={STRANGE_UID}", "--clear-groups"),
            # Whoever runs the tests keeps the interpreter where others may not look.
            *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
        ),
        user=STRANGE_UID,
    ),
    "a user namespace without names": Machine(("unshare", "--user")),
    "root of a user namespace": Machine(("unshare", "--user", "--map-root-user")),
    "no capabilities": Machine(("setpriv", "--bounding-set=-all", "--inh-caps=-all")),
    "bubblewrap": Machine(
        (
            *("bwrap", "--ro-bind", "/", "/", "--bind", "{place}", "{place}", "--proc", "/proc", "--dev", "/dev"),
            *("--unshare-all", "--die-with-parent", "--new-session"),
        )
    ),
    "gVisor's missing calls": Machine((*CONFINED, "--missing", NOT_IN_GVISOR, "--"), lockdown="no Landlock"),
    "a filter that denies locking down": Machine(
        (*CONFINED, "--denied", f"{LANDLOCK},seccomp,capget,capset,pidfd_open,renameat2", "--"), lockdown="no seccomp"
    ),
    "a filter that denies limits and masks": Machine((*CONFINED, "--denied", "prlimit64,setrlimit,umask", "--")),
    "no threads": Machine((*CONFINED, "--denied", "clone,clone3", "--"), refused="start no thread; raise its limit"),
    "no locks anywhere": Machine(
        (*CONFINED, "--missing", "flock", "--"), refused="ticket's file cannot be locked or emptied"
    ),
    "proot": Machine(("proot", "-0"), refused="still possible after locking: executing; report this, or run with"),
    # --- services: options of systemd.exec(5), each as the kernel sees it
    "NoNewPrivileges": Machine(("setpriv", "--no-new-privs")),
    "ProtectSystem=strict": Machine(within("mount -o bind {place} {place}; mount -o remount,ro,bind /")),
    "PrivateTmp": Machine(
        within("mount -o bind {place} /mnt; mount -t tmpfs none /tmp; mkdir -p {place}; mount -o bind /mnt {place}")
    ),
    "ProtectHome": Machine(within("; ".join(f"mount -t tmpfs -o ro,mode=000 none {home}" for home in HOMES))),
    "ProtectProc=invisible": Machine(within("mount -t proc -o hidepid=invisible proc /proc")),
    "MemoryDenyWriteExecute": Machine((*CONFINED, "--no-new-code", "--")),
    "SystemCallFilter=@system-service": Machine((*CONFINED, "--only", "{calls}", "--"), lockdown="no Landlock"),
    f"SystemCallFilter=@system-service {' '.join(SANDBOX)}": Machine((*CONFINED, "--only", "{sandbox-calls}", "--")),
    # --- wrappers
    "nohup": Machine(("nohup",)),
    "timeout": Machine(("timeout", "100")),
    "nice": Machine(("nice", "-n", "19")),
    "an idle scheduler": Machine(("chrt", "--idle", "0")),
    "stdbuf": Machine(("stdbuf", "-oL")),
    "setsid": Machine(("setsid", "--wait")),
    "a shell that stays": Machine(("sh", "-c", '"$@"; exit $?', "sh")),
    "an empty environment": Machine(
        ("env", "-i", f"PYTHONPATH={os.pathsep.join(sys.path)}", "MEMORY_SIDECAR_TICKET={ticket}")
    ),
    "faketime": Machine(("faketime", "2001-01-01 00:00:00")),
    "strace": Machine(("strace", "-f", "-o", "/dev/null")),
    # --- other systems, as far as a filter makes Linux one of them
    "no call that Linux alone has": Machine(
        (*within("mount -t tmpfs -o ro none /proc"), *CONFINED, "--missing", NOT_ON_A_BSD, "--"), lockdown="no Landlock"
    ),
}


def service_calls() -> list[str] | None:
    """The system calls in systemd's group @system-service; None where systemd isn't there to tell."""
    if shutil.which("systemd-analyze") is None:
        return None
    told = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=False
    ).stdout
    members: dict[str, list[str]] = {}
    group: list[str] = []
    for line in told.splitlines():
        word = line.strip()
        if line.startswith("@"):
            group = members[word] = []
        elif word and not word.startswith("#"):
            group.append(word)

    def expanded(name: str) -> list[str]:
        return [call for word in members.get(name, []) for call in (expanded(word) if word[0] == "@" else [word])]

    return expanded("@system-service")


def command(machine: Machine, base: Path, ticket: Path) -> list[str] | str:
    """The words in front of the sidecar's command, or why there are none here."""
    if shutil.which(machine.prefix[0]) is None:
        return f"{machine.prefix[0]} is not installed"
    if os.geteuid():
        return "only root may set it up"
    place = base.parent
    names = {"base": str(base), "place": str(place), "ticket": str(ticket)}
    if CONFINED[1] in machine.prefix and shutil.which("cc") is None:
        return "needs a C compiler, for the numbers of system calls"
    for name, more in (("calls", ()), ("sandbox-calls", SANDBOX)):
        if f"{{{name}}}" in machine.prefix:
            calls = service_calls()
            if calls is None:
                return "systemd is not installed"
            names[name] = str(place / name)
            (place / name).write_text("\n".join([*calls, *more]))
    return [_filled(word, names) for word in machine.prefix]


def _filled(word: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        word = word.replace(f"{{{name}}}", value)
    return word
