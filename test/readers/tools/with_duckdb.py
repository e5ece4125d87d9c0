import importlib.util
import json
import os
from pathlib import Path

import duckdb
import pyarrow as pa

WORDS = {
    "VARCHAR": "string",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "DOUBLE": "double",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "BOOLEAN": "boolean",
    "VARCHAR[]": "strings",
    "DATE": "date",
}
NAMES = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION", "ENDPOINT_URL")


def connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def extension(name: str) -> Path | None:
    """The file of an extension in its package, such as duckdb-extension-httpfs; None without one for this DuckDB."""
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    if package is None:
        return None
    file = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    return file if file.exists() else None


def connected_to_s3(*extensions: str) -> duckdb.DuckDBPyConnection:
    """With the server that the environment names, which has no https."""
    connection = connected()
    for name in extensions:
        connection.execute(f"LOAD '{extension(name)}'")
    key, secret, region, url = (os.environ[f"AWS_{name}"] for name in NAMES)
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION '{region}',"
        f" ENDPOINT '{url.removeprefix('http://')}', URL_STYLE 'path', USE_SSL false)"
    )
    return connection


def source(folder: str) -> str:
    """All files of a dataset; a dataset without days has no `date`."""
    path = folder.replace("'", "''")
    return f"read_parquet('{path}/**/*.parquet', hive_partitioning = true, filename = true)"


def types(folder: str) -> list[tuple[str, str]]:
    columns = connected().execute(f"DESCRIBE SELECT * EXCLUDE (filename) FROM {source(folder)}").fetchall()
    return [(name, WORDS.get(kind, kind)) for name, kind, *_ in columns]


def table(folder: str) -> pa.Table:
    return connected().sql(f"SELECT * EXCLUDE (filename) FROM {source(folder)}").to_arrow_table()


def by_file(root: str, files: list[str], schema) -> dict:
    facts = connected().execute(f"""
        SELECT filename, count(*), epoch_ms(min({schema.first})), epoch_ms(max({schema.last})) + {schema.shift},
               count(DISTINCT symbol) + max(CAST(symbol IS NULL AS INTEGER))
        FROM {source(f"{root}/{files[0].split('/')[0]}")} GROUP BY filename""")
    return {file.removeprefix(f"{root}/"): tuple(rest) for file, *rest in facts.fetchall()}


def repeated(folder: str, key: tuple[str, ...]) -> int:
    keys = ", ".join(key)
    again = f"SELECT 1 FROM {source(folder)} GROUP BY {keys} HAVING count(*) > 1"
    return connected().execute(f"SELECT count(*) FROM ({again})").fetchone()[0]


def one_day(folder: str, day: str) -> tuple[pa.Table, int]:
    """With DuckDB's own count of the files that the query read."""
    connection = connected()
    query = f"SELECT * EXCLUDE (filename) FROM {source(folder)} WHERE date = CAST('{day}' AS DATE)"
    plan = json.loads(connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query}").fetchone()[1])
    return connection.sql(query).to_arrow_table(), files_read(plan)


def files_read(node: dict) -> int:
    info = node.get("extra_info") or {}
    own = int(info["Total Files Read"]) if "Total Files Read" in info else 0
    return own + sum(files_read(child) for child in node.get("operator", []) + node.get("children", []))
