"""Saved tick pages to day partitions with DuckDB: python duckdb_pages.py PAGES_FOLDER OUT_FOLDER"""

import sys
from pathlib import Path

import duckdb


def main(pages: Path, out: Path) -> None:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.execute("SET preserve_insertion_order = false")
    db.execute(
        """
        CREATE TABLE ticks AS
        SELECT symbol, t, max_by(p, page) AS p
        FROM (
            SELECT symbol, page, unnest(ticks, recursive := true)
            FROM read_json($glob, filename = 'file', format = 'unstructured', maximum_object_size = 67108864,
                           columns = {symbol: 'VARCHAR', ticks: 'STRUCT(t BIGINT, p DOUBLE)[]'})
            JOIN (SELECT file, row_number() OVER (ORDER BY file) AS page FROM glob($glob)) USING (file)
        )
        GROUP BY symbol, t
        """,
        {"glob": f"{pages}/**/*.json"},
    )
    days = db.execute("SELECT DISTINCT t // 86400000 AS day FROM ticks ORDER BY day").fetchall()
    for (day,) in days:
        date = db.execute("SELECT (DATE '1970-01-01' + ?::INTEGER)::VARCHAR", [day]).fetchone()[0]
        folder = out / "ticks" / f"date={date}"
        folder.mkdir(parents=True, exist_ok=True)
        # One COPY a day: with PARTITION_BY the order would be lost.
        db.execute(
            f"""
            COPY (
                SELECT symbol, make_timestamp_ms(t)::TIMESTAMP_MS AS t, p FROM ticks
                WHERE t >= {day * 86400000} AND t < {(day + 1) * 86400000}
                ORDER BY symbol, t
            ) TO '{folder / 'part-00.parquet'}'
            (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880, PARQUET_VERSION v2)
            """
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
