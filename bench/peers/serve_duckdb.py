"""Ticks of the part files of an archive over HTTP, with FastAPI, DuckDB and uvicorn: python serve_duckdb.py ARCHIVE

Answers GET /api/v1/ticks, and prints {"url": …} when it does.
"""

import sys
import threading
from datetime import UTC, datetime
from typing import Annotated

import duckdb
from fastapi import FastAPI, Query
from serve import respond, serve


def to_date(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).date().isoformat()


def create_app(archive: str) -> FastAPI:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    # The files do not change: reads each footer once.
    db.execute("SET parquet_metadata_cache = true")
    db.execute("SET validate_external_file_cache = 'NO_VALIDATION'")
    # Requests run in parallel; threads within a query make each of them slower.
    db.execute("SET threads = 1")
    own = threading.local()
    app = FastAPI()
    query = f"""
        SELECT epoch_ms(t), p
        FROM read_parquet('{archive}/ticks/date=*/*.parquet', hive_partitioning = true)
        WHERE date BETWEEN $1::DATE AND $2::DATE AND symbol = $3
          AND t >= make_timestamp_ms($4) AND t < make_timestamp_ms($5)
        ORDER BY t LIMIT $6
    """

    # Not async: FastAPI calls it in a pool of threads. Concurrent queries need a cursor each.
    @app.get("/api/v1/ticks")
    def ticks(symbol: str, start: Annotated[int, Query(alias="from")], to: int, limit: int = 1000):
        if not hasattr(own, "cursor"):
            own.cursor = db.cursor()
        rows = own.cursor.execute(
            query, [to_date(start), to_date(to - 1), symbol, start, to, limit + 1]
        ).fetchall()
        return respond(symbol, rows, start, to, limit)

    return app


if __name__ == "__main__":
    serve(create_app(*sys.argv[1:]))
