"""What the peers of the HTTP service share: the body of a response, and the server."""

import json
import socket
from collections.abc import Sequence
from time import time

import orjson
import uvicorn
from fastapi import FastAPI, Response


def respond(symbol: str, rows: Sequence[tuple[int, float]], start: int, to: int, limit: int) -> Response:
    """The JSON of oddslake for rows of (t, p). One row above the limit shows that there are more."""
    if len(rows) > limit:
        rows = rows[:limit]
        to = rows[-1][0] + 1
    body = {
        "symbol": symbol,
        "ticks": [{"t": t, "p": p} for t, p in rows],
        "count": len(rows),
        "from": start,
        "to": to,
        "generated_at": int(time() * 1000),
        "data_time": to,
    }
    return Response(orjson.dumps(body), media_type="application/json")


def serve(app: FastAPI) -> None:
    """Serves on a free port of this machine, with one worker. Prints its URL as JSON."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    config = uvicorn.Config(app, loop="uvloop", http="httptools", access_log=False, log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])
