"""The exceptions of the package, and the statuses of programs and answers."""


class CodeVerifierError(ValueError):
    """Root of every error that this package raises on purpose; raised itself for a task, proposal,
    row or setting that cannot be used."""


class LiteralError(CodeVerifierError):
    """A text is not a Python literal, or a value cannot be written as one. `status` is the verdict
    status that fits: `not_literal` or `too_long`."""

    def __init__(self, message: str, status: str = "not_literal") -> None:
        super().__init__(message)
        self.status = status


class ProgramError(CodeVerifierError):
    """A program text cannot be parsed, so it has no metrics and cannot be rewritten."""


class SandboxUnavailable(CodeVerifierError):
    """The sandbox cannot start, or the kernel lacks a required layer of protection."""


class Status:
    """Names of the outcomes of one program, of an answer, and of a rejected proposal.
    `SANDBOX_ERROR` is a fault of the sandbox and never counts against a program."""

    OK = "ok"
    SYNTAX_ERROR = "syntax_error"
    BANNED = "banned"
    EXCEPTION = "exception"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    NONDETERMINISTIC = "nondeterministic"
    NOT_LITERAL = "not_literal"
    TOO_LONG = "too_long"
    VIOLATION = "violation"
    SANDBOX_ERROR = "sandbox_error"
    # Of a proposal only:
    INCOMPLETE = "incomplete"
    DUPLICATE_INPUT = "duplicate_input"
    CONSTANT_OUTPUT = "constant_output"
    LEAKING_MESSAGE = "leaking_message"
