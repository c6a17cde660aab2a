"""Tells `phasewise run` what becomes of Snakemake's jobs, a line of JSON each, through a pipe that it gave; formats nothing.

Snakemake finds a plugin by the name of its top-level package.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass, field

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):
    """Options of Snakemake's command line: `--logger-phasewise-pipe`."""

    pipe: int | None = field(default=None, metadata={"help": "Number of the open file to tell.", "type": int})


class LogHandler(LogHandlerBase):
    """Hands on which jobs there are, which ended and which failed."""

    writes_to_stream = False
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def emit(self, record: logging.LogRecord) -> None:
        """One event as a line; what is no job's is left to Snakemake's own lines."""
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO:
            told = {"rule": record.rule_name, "wildcards": dict(record.wildcards or {}), "job": record.jobid}
        elif event == LogEvent.JOB_FINISHED:
            told = {"job": record.job_id}
        elif event == LogEvent.JOB_ERROR:
            told = {"job": record.jobid, "logs": [str(path) for path in record.log]}
        elif event == LogEvent.PROGRESS:
            told = {"done": record.done, "total": record.total}
        else:
            return
        os.write(self.settings.pipe, json.dumps({"event": str(event), **told}).encode() + b"\n")
