"""Converts a CSV file of ticks to day partitions with DuckDB: python duckdb_rows.py FILE OUT_FOLDER"""

import sys
from datetime import date, timedelta
from pathlib import Path

import duckdb

DAY_MS = 86_400_000


def main(file: Path, out: Path) -> None:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.execute(
        """
        CREATE TABLE ticks AS
        SELECT symbol, t, arg_max(p, row) AS p
        FROM (SELECT *, row_number() OVER () AS row FROM read_csv($file))
        GROUP BY symbol, t
        """,
        {"file": str(file)},
    )
    for (day,) in db.execute("SELECT DISTINCT t // $1 AS day FROM ticks ORDER BY day", [DAY_MS]).fetchall():
        folder = out / f"ticks/date={date(1970, 1, 1) + timedelta(days=day)}"
        folder.mkdir(parents=True, exist_ok=True)
        # One COPY per day: PARTITION_BY would lose the order.
        db.execute(f"""
            COPY (
                SELECT symbol, make_timestamp_ms(t)::TIMESTAMP_MS AS t, p
                FROM ticks
                WHERE ticks.t >= {day * DAY_MS} AND ticks.t < {(day + 1) * DAY_MS}
                ORDER BY symbol, ticks.t
            ) TO '{folder}/part-00.parquet'
            (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880, PARQUET_VERSION v2)
        """)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
