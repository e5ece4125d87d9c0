//! Day partitions: `ticks/date=YYYY-MM-DD/part-NN.parquet`, with the columns and the parts of an oddslake archive.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use sha2::{Digest, Sha256};

use crate::merge::Symbol;
use crate::parallel;
use crate::times::{Stage, timed};

const DAY_MS: i64 = 86_400_000;
const ROW_GROUP_ROWS: usize = 122_880;
/// Rows of a file by which the encoding of its times is chosen.
const SAMPLE_ROWS: usize = 20_480;

/// Rows of one symbol.
type Slice<'a> = (&'a Symbol, Range<usize>);

pub fn write(mut symbols: Vec<Symbol>, out: &Path, parts: u32) {
    symbols.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let mut files: BTreeMap<(i64, u32), Vec<Slice>> = BTreeMap::new();
    for symbol in &symbols {
        let part = part_of(&symbol.name, parts);
        let mut start = 0;
        while start < symbol.t.len() {
            let day = symbol.t[start].div_euclid(DAY_MS);
            let end = start + symbol.t[start..].partition_point(|&t| t < (day + 1) * DAY_MS);
            files.entry((day, part)).or_default().push((symbol, start..end));
            start = end;
        }
    }
    let schema = schema();
    let files: Vec<(PathBuf, Vec<Slice>)> =
        files.into_iter().map(|((day, part), slices)| (path(out, day, part), slices)).collect();
    for (file, _) in &files {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
    }
    parallel::map(files, |(file, slices)| {
        let bytes = timed(Stage::Encode, || encode(&schema, &slices));
        timed(Stage::Write, || fs::write(file, bytes)).unwrap();
    });
}

fn part_of(symbol: &str, parts: u32) -> u32 {
    let hash = Sha256::digest(symbol);
    u32::from_be_bytes(hash[..4].try_into().unwrap()) % parts
}

/// The symbols are a dictionary here and plain strings in the file.
fn schema() -> SchemaRef {
    let symbol = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let t = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("symbol", symbol, false),
        Field::new("t", t, false),
        Field::new("p", DataType::Float64, false),
    ]))
}

fn encode(schema: &SchemaRef, slices: &[Slice]) -> Vec<u8> {
    let options = ArrowWriterOptions::new().with_properties(properties(slices)).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema.clone(), options).unwrap();
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(slices.iter().map(|(symbol, _)| &symbol.name)));
    let mut columns = Columns::new();
    for (index, (symbol, rows)) in slices.iter().enumerate() {
        let mut rows = rows.clone();
        while !rows.is_empty() {
            let taken = rows.start..rows.end.min(rows.start + ROW_GROUP_ROWS - columns.t.len());
            rows.start = taken.end;
            columns.symbol.resize(columns.t.len() + taken.len(), index as i32);
            columns.t.extend_from_slice(&symbol.t[taken.clone()]);
            columns.p.extend_from_slice(&symbol.p[taken]);
            if columns.t.len() == ROW_GROUP_ROWS {
                writer.write(&std::mem::replace(&mut columns, Columns::new()).batch(schema, &names)).unwrap();
            }
        }
    }
    if !columns.t.is_empty() {
        writer.write(&columns.batch(schema, &names)).unwrap();
    }
    writer.into_inner().unwrap()
}

struct Columns {
    symbol: Vec<i32>,
    t: Vec<i64>,
    p: Vec<f64>,
}

impl Columns {
    fn new() -> Self {
        Columns {
            symbol: Vec::with_capacity(ROW_GROUP_ROWS),
            t: Vec::with_capacity(ROW_GROUP_ROWS),
            p: Vec::with_capacity(ROW_GROUP_ROWS),
        }
    }

    fn batch(self, schema: &SchemaRef, names: &ArrayRef) -> RecordBatch {
        let symbol = DictionaryArray::<Int32Type>::try_new(Int32Array::from(self.symbol), names.clone()).unwrap();
        let t = TimestampMillisecondArray::from(self.t).with_timezone("UTC");
        let columns: Vec<ArrayRef> = vec![Arc::new(symbol), Arc::new(t), Arc::new(Float64Array::from(self.p))];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    }
}

/// Times are differences, unless most of them repeat: symbols that are polled together.
fn properties(slices: &[Slice]) -> WriterProperties {
    let times = slices.iter().flat_map(|(symbol, rows)| &symbol.t[rows.clone()]).take(SAMPLE_ROWS);
    let rows = slices.iter().map(|(_, rows)| rows.len()).sum::<usize>().min(SAMPLE_ROWS);
    let repeats = times.collect::<HashSet<_>>().len() * 4 < rows;
    let t = ColumnPath::from("t");
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).unwrap()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk);
    if repeats {
        properties.build()
    } else {
        let delta = Encoding::DELTA_BINARY_PACKED;
        properties.set_column_dictionary_enabled(t.clone(), false).set_column_encoding(t, delta).build()
    }
}

fn path(out: &Path, day: i64, part: u32) -> PathBuf {
    let (year, month, day) = date(day);
    out.join(format!("ticks/date={year:04}-{month:02}-{day:02}/part-{part:02}.parquet"))
}

/// Year, month and day of a number of days since 1970-01-01, by Howard Hinnant's `civil_from_days`.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}
