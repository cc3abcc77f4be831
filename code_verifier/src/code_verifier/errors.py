"""The exceptions of the package: one root that is a ValueError."""


class CodeVerifierError(ValueError):
    """Root of every error this package raises on purpose."""


class LiteralError(CodeVerifierError):
    """A text is not a Python literal, or a value cannot be written as one. `status` is the verdict
    status that fits: `not_literal` or `too_long`."""

    def __init__(self, message: str, status: str = "not_literal") -> None:
        super().__init__(message)
        self.status = status


class ProgramError(CodeVerifierError):
    """A program text cannot be parsed, so it has no metrics and cannot be rewritten."""


class RecordError(CodeVerifierError):
    """A task, proposal or input row lacks a field or holds a value of the wrong kind."""


class SandboxUnavailable(CodeVerifierError):
    """The sandbox cannot start, or the kernel lacks a layer that was not waived."""
