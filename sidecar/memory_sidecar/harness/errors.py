"""What a harness may have to catch. All of it is `SidecarError`."""

__all__ = ["RequestRefusedError", "SidecarDiedError", "SidecarError", "StartError"]


class SidecarError(Exception):
    """The sidecar did not do what was asked."""


class StartError(SidecarError):
    """The sidecar cannot start. The text is its own remedy, meant for the operator and not for the model."""


class SidecarDiedError(SidecarError):
    """The sidecar's process ended while it was needed. What it acknowledged is saved; a new launch resumes."""


class RequestRefusedError(SidecarError):
    """The sidecar refused a request: an unknown tool, a run that cannot be opened. `code` is JSON-RPC's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
