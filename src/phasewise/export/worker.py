"""The export stage's half: a process that answers one request at a time, and may die at any of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from phasewise.records.export import ExportStatus
from phasewise.workers.failure import ProcessFailed
from phasewise.workers.process import Process, receive_all


class Refused(Exception):
    """A worker could not do what it was asked, with the status and the sentence for the record."""

    def __init__(self, status: ExportStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Worker:
    """A process running `module`, whose `main` calls `serve`."""

    def __init__(self, module: str, *, environment: Mapping[str, str], root: Path, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._root = root
        self._process = Process(environment=environment, folder=root, module=module)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.close()

    @property
    def is_alive(self) -> bool:
        return not self._process.is_dead()

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """The worker's answer.

        Raises:
            Refused: UNSUPPORTED or SKIPPED as it says; FAILED if it crashed, was killed or ran out of time, and then it is gone.
        """
        self._process.send(do, **request)
        try:
            answer: dict[str, Any] = receive_all([self._process], do, self._timeout_s)[0]
        except ProcessFailed as died:
            raise Refused(ExportStatus.FAILED, self._shorten(died.failure.message)) from None
        for status in (ExportStatus.UNSUPPORTED, ExportStatus.FAILED, ExportStatus.SKIPPED):
            if status.value in answer:
                raise Refused(status, self._shorten(answer[status.value]))
        return answer

    def _shorten(self, message: str) -> str:
        """Records name paths below the project's folder."""
        return message.replace(f"{self._root.resolve()}/", "")
