"""Compares the ticks of two folders: python check.py A B. Exits with 1 if a key or a price differs."""

import sys
from pathlib import Path

import duckdb


# One day's rows at a time, so that memory does not grow with the folders.
ROWS_AT_ONCE = 10_000_000


def main(a: str, b: str) -> int:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    for name, folder in (("a", a), ("b", b)):
        # A row belongs to the day of its folder: a tick in another day's folder counts as a difference.
        files = f"{Path(folder).resolve()}/ticks/date=*/*.parquet".replace("'", "''")
        db.execute(f"""
            CREATE VIEW all_{name} AS
            SELECT symbol::VARCHAR AS symbol, epoch_ms(t) AS t, p, date
            FROM read_parquet('{files}', hive_partitioning = true, hive_types_autocast = false)
        """)
    days = db.execute("""
        SELECT date, max(n) FROM (
            SELECT date, count(*) AS n FROM all_a GROUP BY date
            UNION ALL SELECT date, count(*) FROM all_b GROUP BY date
        ) GROUP BY date ORDER BY date
    """).fetchall()
    found = [0] * len(COUNTED)
    for date, rows in days:
        slices = 1 + rows // ROWS_AT_ONCE
        for number in range(slices):
            found = [sum(pair) for pair in zip(found, compared(db, date, slices, number))]
    rows_a, keys_a, rows_b, keys_b, only_a, only_b, prices, astray = found
    same = rows_a == keys_a == rows_b == keys_b and rows_a > 0 and only_a == only_b == prices == astray == 0
    print(
        f"{'same' if same else 'DIFFERENT'}: A {rows_a} rows of {keys_a} keys, B {rows_b} rows of {keys_b} keys, "
        f"only in A {only_a}, only in B {only_b}, other price {prices}, in another day's folder {astray}"
    )
    return 0 if same else 1


COUNTED = ("rows of A", "keys of A", "rows of B", "keys of B", "only in A", "only in B", "other price", "astray")


def compared(db: duckdb.DuckDBPyConnection, date: str, slices: int, number: int) -> list[int]:
    """The counts named by COUNTED for one slice of a day. A slice has all ticks of its symbols."""
    for name in ("a", "b"):
        db.execute(
            f"""
            CREATE OR REPLACE TABLE {name} AS
            SELECT symbol, t, p, date::DATE AS date FROM all_{name} WHERE date = $1 AND hash(symbol) % $2 = $3
            """,
            [date, slices, number],
        )
    differing = db.execute("""
        SELECT count(*) FILTER (b.symbol IS NULL), count(*) FILTER (a.symbol IS NULL),
               count(*) FILTER (a.symbol IS NOT NULL AND b.symbol IS NOT NULL AND a.p IS DISTINCT FROM b.p)
        FROM a FULL JOIN b ON a.symbol = b.symbol AND a.t = b.t AND a.date = b.date
    """).fetchone()
    astray = db.execute("""
        SELECT count(*) FROM (FROM a UNION ALL FROM b) WHERE make_timestamp_ms(t)::DATE IS DISTINCT FROM date
    """).fetchone()
    return [*counts(db, "a"), *counts(db, "b"), *differing, *astray]


def counts(db: duckdb.DuckDBPyConnection, table: str) -> tuple[int, int]:
    return db.execute(f"SELECT count(*), count(DISTINCT (symbol, t)) FROM {table}").fetchone()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python check.py A B")
    sys.exit(main(sys.argv[1], sys.argv[2]))
