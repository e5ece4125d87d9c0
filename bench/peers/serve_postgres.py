"""Ticks of a PostgreSQL table over HTTP, with FastAPI, asyncpg and uvicorn.

python serve_postgres.py load DATABASE_URL ARCHIVE copies the ticks of an archive into the table, and
prints the version of the server.
python serve_postgres.py serve DATABASE_URL answers GET /api/v1/ticks, and prints {"url": …} when it does.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import asyncpg
import duckdb
from fastapi import FastAPI, Query
from serve import respond, serve

CONNECTIONS = 16


async def load(database: str, archive: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(
        "CREATE TABLE ticks (symbol text NOT NULL, t bigint NOT NULL, p double precision NOT NULL)"
    )
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        duckdb.execute(
            f"""
            COPY (SELECT symbol, epoch_ms(t), p
                  FROM read_parquet('{archive}/ticks/date=*/*.parquet', hive_partitioning = true))
            TO '{file.name}' (HEADER false)
            """
        )
        await connection.copy_to_table("ticks", source=file.name, format="csv")
    await connection.execute("ALTER TABLE ticks ADD PRIMARY KEY (symbol, t)")
    await connection.execute("CLUSTER ticks USING ticks_pkey")
    await connection.execute("VACUUM (ANALYZE) ticks")
    # Reads the table into memory.
    await connection.fetchval("SELECT sum(p) FROM ticks")
    print(await connection.fetchval("SHOW server_version"))
    await connection.close()


def create_app(database: str) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with asyncpg.create_pool(database, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
            app.state.pool = pool
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/api/v1/ticks")
    async def ticks(symbol: str, start: Annotated[int, Query(alias="from")], to: int, limit: int = 1000):
        rows = await app.state.pool.fetch(
            "SELECT t, p FROM ticks WHERE symbol = $1 AND t >= $2 AND t < $3 ORDER BY t LIMIT $4",
            symbol,
            start,
            to,
            limit + 1,
        )
        return respond(symbol, rows, start, to, limit)

    return app


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "load":
        asyncio.run(load(*arguments))
    else:
        serve(create_app(*arguments))
