"""Every published file alone, read by PyArrow: the reference for the tools."""

import hashlib
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from archives import DAY_MS
from contract import DATASETS

pytestmark = pytest.mark.parametrize("dataset", DATASETS)

WORDS = {
    pa.string(): "string",
    pa.timestamp("ms", "UTC"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamp_us",
    pa.float64(): "double",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.bool_(): "boolean",
}


def word(kind: pa.DataType) -> str:
    """The name of a type. A dictionary has none: strings must be plain strings."""
    return "strings" if pa.types.is_list(kind) and kind.value_type == pa.string() else WORDS.get(kind, str(kind))


def test_files_have_the_columns_and_types_of_the_contract(archive, dataset):
    for file in archive.files(dataset):
        schema = pq.read_schema(archive.root / file["path"])
        found = [(field.name, word(field.type)) for field in schema]
        assert found == [(name, kind) for name, kind, _ in DATASETS[dataset].columns], file["path"]


def test_times_are_utc_in_their_unit_in_the_file_itself(archive, dataset):
    for file in archive.files(dataset):
        schema = pq.ParquetFile(archive.root / file["path"]).schema
        logical = {schema.column(i).path: str(schema.column(i).logical_type) for i in range(len(schema))}
        for name, kind, _ in DATASETS[dataset].columns:
            if kind.startswith("timestamp"):
                unit = "microseconds" if kind == "timestamp_us" else "milliseconds"
                assert "isAdjustedToUTC=true" in logical[name], (file["path"], name, logical)
                assert f"timeUnit={unit}" in logical[name], (file["path"], name, logical)


def test_files_match_the_manifest_byte_for_byte(archive, dataset):
    for file in archive.files(dataset):
        content = (archive.root / file["path"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"]), file["path"]
    there = {str(path.relative_to(archive.root)) for path in (archive.root / dataset).rglob("*.parquet")}
    assert there == {file["path"] for file in archive.files(dataset)}


def test_rows_are_sorted_with_texts_by_utf8_bytes(archive, dataset):
    for file in archive.files(dataset):
        table = pq.ParquetFile(archive.root / file["path"]).read(columns=list(DATASETS[dataset].order))
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in DATASETS[dataset].order])
        assert order.equals(pa.array(range(table.num_rows), pa.uint64())), file["path"]


def test_only_nullable_columns_have_nulls(archive, dataset):
    for file in archive.files(dataset):
        table = pq.ParquetFile(archive.root / file["path"]).read()
        empty = {name for name in table.column_names if table[name].null_count > 0}
        assert empty <= {name for name, _, may_be_null in DATASETS[dataset].columns if may_be_null}, file["path"]


def test_a_row_is_in_the_folder_of_its_own_day(archive, dataset):
    if not DATASETS[dataset].has_days:
        pytest.skip("has no days")
    for file in archive.files(dataset):
        table = pq.ParquetFile(archive.root / file["path"]).read(columns=[DATASETS[dataset].first])
        days = pc.unique(pc.divide(table[0].cast(pa.int64()), DAY_MS)).to_pylist()
        expected = [file["date"]] if file["rows"] > 0 else []
        assert [str(date(1970, 1, 1) + timedelta(day)) for day in days] == expected, file["path"]
