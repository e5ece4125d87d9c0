"""Runs oddslake every night as an Airflow DAG. Supports Airflow 2.9 or newer, and Airflow 3.

The worker needs `oddslake` on its PATH, the archive on a local disk, and the path of a config in ODDSLAKE_CONFIG.
"""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime, timedelta, timezone

try:  # Airflow 3
    from airflow.sdk import DAG, BaseOperator
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:
    try:
        from airflow.sdk import DAG, BaseOperator
    except ImportError:  # Airflow 2
        from airflow import DAG
        from airflow.models.baseoperator import BaseOperator
    from airflow.exceptions import AirflowException, AirflowFailException

# Exit codes for bad settings, a rejected key and a damaged archive. A retry would fail again.
HOPELESS = {2, 3, 6}
INCOMPLETE = 4


class OddslakeOperator(BaseOperator):
    """Runs one job and returns its summary.

    Exit code 0 is success. Exit code 4 is incomplete: all fetched data is published, and the next run requests the rest. The
    task then succeeds with a warning, and its summary (XCom) lists the gaps. All other exit codes are failures.
    """

    template_fields = ("arguments",)

    def __init__(self, *, arguments: list[str], command: str = os.environ.get("ODDSLAKE", "oddslake"), **kwargs):
        super().__init__(**kwargs)
        self.arguments = arguments
        self.command = command
        self.process: subprocess.Popen | None = None

    def execute(self, context):
        line = [self.command, *self.arguments, "--json", "--no-progress"]
        self.log.info("running %s", line)
        # Log lines go to the log of the task. The summary is the last line of standard output.
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        last = ""
        for text in self.process.stdout:
            last = text.rstrip() or last
            self.log.info("%s", text.rstrip())
        code = self.process.wait()
        summary = self._summary(last)
        reason = summary.get("error") or f"{summary.get('failures_count', 0)} failures"
        if code == 0:
            return summary
        if code == INCOMPLETE:
            self.log.warning("incomplete: %s. The next run requests the rest.", reason)
            return summary
        failure = AirflowFailException if code in HOPELESS else AirflowException
        raise failure(f"oddslake {self.arguments[0]} ended with {code}: {reason}")

    @staticmethod
    def _summary(line: str) -> dict:
        try:
            summary = json.loads(line)
        except ValueError:
            return {}
        return summary if isinstance(summary, dict) else {}

    def on_kill(self):
        # SIGTERM stops the run cleanly. Accepted data is kept.
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=120)


with DAG(
    dag_id="oddslake_nightly",
    description="Polls the market data service into the archive every night",
    schedule="17 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    # A run polls every symbol from its cursor on, so one run also fetches the data of missed runs.
    catchup=False,
    max_active_runs=1,
    tags=["oddslake"],
) as dag:
    nightly = OddslakeOperator(
        task_id="nightly",
        arguments=["nightly", "--wait", "3600"],
        retries=3,
        retry_delay=timedelta(minutes=10),
        execution_timeout=timedelta(hours=12),
    )
    verify = OddslakeOperator(task_id="verify", arguments=["verify"])
    nightly >> verify
