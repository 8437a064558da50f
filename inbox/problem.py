"""What all errors of the rules are: a code, what is wrong, and what to do next."""

Faults = list[dict[str, str]]  # [{"pointer": ..., "detail": ...}]


class Problem(Exception):
    """Something about a request that the caller can mend."""

    code = "problem"
    title = "The request cannot be done"
    hint = ""
    retryable = False
    retry_after: int | None = None  # seconds

    def __init__(self, detail: str, hint: str | None = None, errors: Faults | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        if hint is not None:
            self.hint = hint
        self.errors = errors or []
