"""Keeps Delta tables over the objects of an archive in a bucket: the table of a dataset is at data/DATASET.

    python sync_delta.py s3://BUCKET/PREFIX [--dataset ticks …] [--storage-option KEY=VALUE …]

Run it after each push, on any machine. manifest.json stays the truth: a table follows it by one commit, which names the same
objects. No object of data/ is read, written or removed. A run without changes writes nothing, and a run that was killed is
completed by the next one. docs/BUCKET.md describes the tables and how to read them.

The retention of `oddslake push` keeps what tables name, by markers. A marker is an object tables/DATASET/NAME; it says that
the table may name the objects of manifests/NAME. A sync of one table has these steps:

1. Create the marker of the current manifest.
2. Read manifest.json again, and start again if it was replaced. Later pushes list the markers before they remove its objects.
3. Create the next commit in data/DATASET/_delta_log/, if nobody else has created it: the commit point.
4. Remove the markers of earlier manifests. The table never goes back to one of them, because a commit that was planned on
   an earlier version of the table is refused.

The commit is written here and not by deltalake's create_write_transaction. That can only remove whole days, so an object that
stays would be removed and added in one commit. The actions of a commit have no order, so readers may then lose the object.

Exit codes: 0 done, 2 refused, 3 credential refused, 5 other runs came first each time, 6 manifest.json is damaged,
7 no usable response.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

import obstore
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotModifiedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

BUCKET_FORMAT = 1
# The columns of each dataset and the version of the archive format, generated from oddslake's own definitions.
FORMAT = json.loads((Path(__file__).parent / "columns.json").read_text())
# A table records here, as Delta's transaction version of this name, the sequence of the manifest that it follows.
APPLICATION = "oddslake"
PROTOCOL = (1, 2)
PROPERTIES = {
    # If somebody runs VACUUM in spite of docs/BUCKET.md, it leaves objects alone that a manifest has and the table has not yet.
    "delta.deletedFileRetentionDuration": "interval 365 days",
}
# So that readers need not read the log from its beginning.
VERSIONS_PER_CHECKPOINT = 10
ATTEMPTS_MAX = 10

DELTA_TYPES = {
    **{"string": "string", "timestamp": "timestamp", "double": "double", "boolean": "boolean"},
    **{"int32": "integer", "int64": "long", "timestamp_us": "timestamp"},
    "strings": {"type": "array", "elementType": "string", "containsNull": False},
}


class Refusal(Exception):
    """The bucket or a table is not what this program can continue."""


class Damage(Exception):
    """manifest.json cannot be read."""


class Busy(Exception):
    """Other runs came first each time."""


@dataclass(frozen=True)
class Archive:
    """The prefix of an archive in a bucket."""

    url: str
    store: S3Store
    options: dict[str, str]


@dataclass(frozen=True)
class Manifest:
    etag: str
    # Its name in manifests/, and that of its markers.
    name: str
    sequence: int
    generation: int
    created_at: int
    # By dataset.
    files: dict[str, list[dict]]


@dataclass(frozen=True)
class Table:
    """The current version of a table."""

    version: int
    # The sequence of the manifest that it follows.
    sequence: int
    id: str
    created_at: int | None
    # Name and type of each column.
    columns: list[tuple[str, object]]
    properties: dict[str, str]
    # Paths below the table's folder.
    paths: set[str]


def open_archive(url: str, options: dict[str, str]) -> Archive:
    address = urlparse(url)
    if address.scheme != "s3" or not address.netloc or not address.path.strip("/"):
        raise Refusal(f"{url} is not an address such as s3://BUCKET/PREFIX")
    names = ("aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint")
    endpoint = next((options[name] for name in names if name in options), os.environ.get("AWS_ENDPOINT_URL", ""))
    clear = endpoint.startswith("http://")
    if clear and urlparse(endpoint).hostname not in ("localhost", "127.0.0.1", "::1"):
        raise Refusal(f"The endpoint {endpoint} is not encrypted. http is accepted for this machine only.")
    prefix = address.path.strip("/")
    store = S3Store(address.netloc, prefix=prefix, config=options, client_options={"allow_http": clear})
    return Archive(f"s3://{address.netloc}/{prefix}", store, options | ({"allow_http": "true"} if clear else {}))


def read_manifest(target: Archive, last: Manifest | None = None) -> Manifest:
    """Reads manifest.json in one request. Returns `last` itself if it is still the current one."""
    try:
        found = obstore.get(target.store, "manifest.json", options={"if_none_match": last.etag} if last else None)
        etag = found.meta["e_tag"]
        body = bytes(found.bytes())
    except NotModifiedError:
        return last
    except FileNotFoundError:
        raise Refusal(f"{target.url} has no manifest.json. Push an archive there first.") from None
    return parse_manifest(body, etag, target.url)


def parse_manifest(body: bytes, etag: str, url: str) -> Manifest:
    try:
        return check_manifest(json.loads(body), body, etag, url)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damage(f"{url}/manifest.json is damaged: it is not a manifest that oddslake pushed.") from None


def check_manifest(document: dict, body: bytes, etag: str, url: str) -> Manifest:
    section = document.get("bucket")
    if section is None:
        raise Refusal(f"{url}/manifest.json is of an archive that was copied there, not pushed.")
    if section["format"] != BUCKET_FORMAT or document["format_version"] != FORMAT["format_version"]:
        raise Refusal(f"{url} has another format. Use the sync_delta.py of the oddslake that pushed it.")
    if not section["conditional_writes"]:
        raise Refusal(f"The server of {url} has no conditional writes, so two commits at once could be lost.")
    sequence = section["sequence"]
    name = f"{sequence:06d}-{hashlib.sha256(body).hexdigest()[:12]}.json"
    files = {dataset: content["files"] for dataset, content in document["datasets"].items()}
    return Manifest(etag, name, sequence, document["generation"], document["created_at"], files)


def read_markers(target: Archive, dataset: str) -> dict[str, int]:
    """The markers of a table, by path, with the sequences of their manifests."""
    form = re.compile(rf"tables/{dataset}/(\d{{6,15}})-[0-9a-f]{{12}}\.json")
    paths = [found["path"] for found in obstore.list(target.store, f"tables/{dataset}/").collect()]
    return {path: int(match[1]) for path in paths if (match := form.fullmatch(path))}


def open_table(target: Archive, dataset: str) -> DeltaTable | None:
    try:
        return DeltaTable(f"{target.url}/data/{dataset}", storage_options=target.options)
    except TableNotFoundError:
        return None


def read_table(target: Archive, dataset: str) -> Table | None:
    """The current version of a table; None if there is no table."""
    found = open_table(target, dataset)
    if found is None:
        return None
    root = f"{target.url}/data/{dataset}/"
    sequence = found.transaction_version(APPLICATION)
    protocol = found.protocol()
    if sequence is None or (protocol.min_reader_version, protocol.min_writer_version) != PROTOCOL:
        raise Refusal(f"The table at {root} is not of this program. Remove {root}_delta_log/ to have it made again.")
    metadata = found.metadata()
    fields = json.loads(found.schema().to_json())["fields"]
    return Table(
        version=found.version(),
        sequence=sequence,
        id=str(metadata.id),
        created_at=metadata.created_time,
        columns=[(field["name"], field["type"]) for field in fields],
        properties=dict(metadata.configuration),
        paths={uri.removeprefix(root) for uri in found.file_uris()},
    )


def plan_commit(dataset: str, manifest: Manifest, table: Table | None, markers: list[int], now: int) -> list[dict] | None:
    """The actions of the commit after which a table follows a manifest; None if it needs none.

    A commit without files is needed if a run was killed after it had created a marker: markers can only be removed once
    the table has a later version, because that run may still be at work.
    """
    root = f"data/{dataset}/"
    wanted = {file["key"].removeprefix(root): file for file in manifest.files.get(dataset, [])}
    present = set() if table is None else table.paths
    added = [to_add(dataset, path, file, manifest) for path, file in wanted.items() if path not in present]
    removed = [
        {"remove": {"path": path, "deletionTimestamp": now, "dataChange": True}} for path in sorted(present - set(wanted))
    ]
    described = [] if table is not None and is_described(dataset, table) else [to_metadata(dataset, table, now)]
    created = [{"protocol": dict(zip(("minReaderVersion", "minWriterVersion"), PROTOCOL))}] if table is None else []
    if table is not None and not added and not removed and not described:
        is_marked = table.sequence in markers
        is_left = any(table.sequence < marker <= manifest.sequence for marker in markers)
        if is_marked and not is_left:
            return None
    info = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {"mode": "Overwrite", "partitionBy": json.dumps(to_partitions(dataset))},
        "isBlindAppend": False,
        "engineInfo": "oddslake sync_delta",
        "oddslakeSequence": manifest.sequence,
        "oddslakeGeneration": manifest.generation,
        "oddslakeManifest": f"manifests/{manifest.name}",
    }
    followed = {"appId": APPLICATION, "version": manifest.sequence, "lastUpdated": now}
    return [{"commitInfo": info}, *created, *described, {"txn": followed}, *removed, *added]


def to_add(dataset: str, path: str, file: dict, manifest: Manifest) -> dict:
    day = file["date"]
    stats: dict = {"numRecords": file["rows"]}
    # Of the datasets with a column t, t_min and t_max are its minimum and maximum. The manifest has no bounds of symbols.
    if file["t_min"] is not None and has_time(dataset):
        stats |= {"minValues": {"t": to_time(file["t_min"])}, "maxValues": {"t": to_time(file["t_max"])}}
        stats |= {"nullCount": {"t": 0}}
    return {
        "add": {
            "path": path,
            "partitionValues": {} if day is None else {"date": day},
            "size": file["bytes"],
            "modificationTime": manifest.created_at,
            "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":")),
        }
    }


def has_time(dataset: str) -> bool:
    return any(column["name"] == "t" for column in FORMAT["datasets"][dataset]["columns"])


def to_time(ms: int) -> str:
    seconds, rest = divmod(ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03d}Z"


def to_partitions(dataset: str) -> list[str]:
    return ["date"] if FORMAT["datasets"][dataset]["has_days"] else []


def to_fields(dataset: str) -> list[dict]:
    """The columns of a table: those of the files, and the day, which is in their paths."""
    columns = [(one["name"], DELTA_TYPES[one["type"]], one["nullable"]) for one in FORMAT["datasets"][dataset]["columns"]]
    days = [(name, "date", False) for name in to_partitions(dataset)]
    return [{"name": name, "type": kind, "nullable": null, "metadata": {}} for name, kind, null in [*columns, *days]]


def is_described(dataset: str, table: Table) -> bool:
    columns = [(field["name"], field["type"]) for field in to_fields(dataset)]
    return table.columns == columns and PROPERTIES.items() <= table.properties.items()


def to_metadata(dataset: str, table: Table | None, now: int) -> dict:
    return {
        "metaData": {
            "id": str(uuid.uuid4()) if table is None else table.id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": to_fields(dataset)}),
            "partitionColumns": to_partitions(dataset),
            "configuration": PROPERTIES if table is None else table.properties | PROPERTIES,
            "createdTime": now if table is None else table.created_at,
        }
    }


def sync_table(target: Archive, dataset: str, manifest: Manifest) -> tuple[Manifest, str]:
    """Makes a table follow manifest.json. Returns the manifest that it follows, and what was done.

    It ends only when it has read that the table follows the current manifest, so that of two runs the one with the
    earlier manifest does not end with its own version.
    """
    done = "unchanged"
    for _ in range(ATTEMPTS_MAX):
        manifest = read_manifest(target, manifest)
        table = read_table(target, dataset)
        markers = read_markers(target, dataset)
        if table is not None and table.sequence > manifest.sequence:
            # Either another run was first with a later manifest, or manifest.json has gone back.
            if read_manifest(target, manifest) is not manifest:
                continue
            raise Refusal(
                f"The table of {dataset} follows manifest {table.sequence}, and {target.url}/manifest.json is {manifest.sequence}."
                f" Was an earlier manifest copied there? Remove data/{dataset}/_delta_log/ and tables/{dataset}/ to start again."
            )
        actions = plan_commit(dataset, manifest, table, list(markers.values()), round(time.time() * 1000))
        if actions is None:
            release([path for path, sequence in markers.items() if sequence < table.sequence], target)
            return manifest, done
        mark(target, dataset, manifest)
        if read_manifest(target, manifest) is not manifest:
            continue
        version = 0 if table is None else table.version + 1
        if not commit(target, dataset, version, actions):
            continue
        counts = [sum(kind in action for action in actions) for kind in ("add", "remove")]
        done = f"version {version}: {counts[0]} objects added, {counts[1]} removed"
        if version > 0 and version % VERSIONS_PER_CHECKPOINT == 0:
            write_checkpoint(target, dataset)
    raise Busy(f"Other runs came first {ATTEMPTS_MAX} times for the table of {dataset}. Run this again.")


def mark(target: Archive, dataset: str, manifest: Manifest) -> None:
    body = json.dumps({"manifest": f"manifests/{manifest.name}"}).encode()
    # Its text is the same whoever writes it.
    obstore.put(target.store, f"tables/{dataset}/{manifest.name}", body)


def release(paths: list[str], target: Archive) -> None:
    if paths:
        obstore.delete(target.store, paths)


def commit(target: Archive, dataset: str, version: int, actions: list[dict]) -> bool:
    """Creates a version of a table. False if it is there: by another run, or by a request whose response was lost."""
    lines = (json.dumps(action, separators=(",", ":"), ensure_ascii=False) for action in actions)
    body = "".join(f"{line}\n" for line in lines).encode()
    try:
        obstore.put(target.store, f"data/{dataset}/_delta_log/{version:020d}.json", body, mode="create")
    except AlreadyExistsError:
        return False
    return True


def write_checkpoint(target: Archive, dataset: str) -> None:
    """Sums up the log for readers, and removes the commits before it that are older than 30 days. The table is right without."""
    try:
        table = open_table(target, dataset)
        table.create_checkpoint()
        table.cleanup_metadata()
    except (DeltaError, OSError) as error:
        print(f"sync_delta: warning: no checkpoint of {dataset}: {error}", file=sys.stderr)


def run(arguments: argparse.Namespace) -> None:
    options = dict(option.split("=", 1) for option in arguments.storage_option)
    target = open_archive(arguments.url, {name.lower(): value for name, value in options.items()})
    manifest = read_manifest(target)
    for dataset in arguments.dataset or FORMAT["datasets"]:
        manifest, done = sync_table(target, dataset, manifest)
        print(f"{dataset}: {done} (generation {manifest.generation})", flush=True)


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Makes Delta tables follow the manifest of an archive in a bucket.")
    parser.add_argument("url", help="s3://BUCKET/PREFIX, as of oddslake push")
    datasets = list(FORMAT["datasets"])
    parser.add_argument("--dataset", nargs="+", action="extend", choices=datasets, help="default: all", metavar="NAME")
    text = "an option of the S3 client, such as aws_region=eu-west-1; by default those of the environment"
    parser.add_argument("--storage-option", action="append", default=[], help=text, metavar="KEY=VALUE")
    arguments = parser.parse_args(argv)
    if any("=" not in option for option in arguments.storage_option):
        parser.error("--storage-option needs KEY=VALUE")
    return arguments


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    try:
        run(arguments)
        return 0
    except Refusal as error:
        code, message = 2, error
    except Busy as error:
        code, message = 5, error
    except Damage as error:
        code, message = 6, error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        code, message = 3, error
    except (BaseError, DeltaError, OSError) as error:
        code, message = 7, error
    print(f"sync_delta: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
