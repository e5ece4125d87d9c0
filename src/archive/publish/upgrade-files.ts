import { DamageError } from '../../base/errors.ts';
import { parseDayStart } from '../../base/time.ts';
import type { Archive } from '../archive.ts';
import {
  type Column,
  candleDatasets,
  type DatasetDefinition,
  type DatasetName,
  datasetNames,
  datasets,
} from '../format/datasets.ts';
import { parsePartNumber } from '../format/layout.ts';
import { formatVersion, hasRows, type Manifest, type PublishedFile } from '../format/manifest.ts';
import { getOlderOutcomeSource } from '../format/market-details.ts';
import { type Database, getMeta, setMeta, upgradedKey } from '../journal/database.ts';
import { createRowKeyReader } from '../parquet/row-group-index.ts';
import { type CellValue, decodeRows, encodeRows } from '../parquet/rows.ts';
import { encodePartFile } from '../parquet/writer.ts';
import { readPublishedFile } from '../read-published-file.ts';
import { encodeEmptyFile } from './empty-files.ts';
import { createEncodedFile, type EncodedFile } from './encode-partition.ts';
import { stageSplitTable } from './split-tables.ts';
import { type Stage, stageFile } from './staging.ts';

/** A published file that does not have all columns of the current format, or the symbols of all parts. */
interface OutdatedFile {
  readonly dataset: DatasetName;
  readonly file: PublishedFile;
}

/** The last upgrade: the format before it, and the generation that it published. */
interface LastUpgrade {
  readonly from: number;
  readonly generation: number;
}

/**
 * Lists the files without the columns that were added after their format. In an archive of the current format, these
 * are files that the last upgrade could not rewrite because they were damaged, and that were restored since then.
 */
export function listOutdatedFiles(db: Database, base: Manifest): OutdatedFile[] {
  const last = base.format_version === formatVersion ? readLastUpgrade(db) : undefined;
  if (base.format_version === formatVersion && last === undefined) return [];
  const { from, generation } = last ?? { from: base.format_version, generation: Number.POSITIVE_INFINITY };
  return datasetNames
    .filter((name) => (datasets[name] as DatasetDefinition).splitSince! > from || hasNewColumns(name, from))
    .flatMap((dataset) =>
      base.datasets[dataset].files
        .filter((file) => file.generation < generation)
        .map((file): OutdatedFile => ({ dataset, file })),
    );
}

const hasNewColumns = (name: DatasetName, from: number): boolean =>
  listColumns(name).some(({ since = 1 }) => since > from);

/**
 * Rewrites outdated files with all columns, and split by symbol. Holds one file in memory.
 * @returns one message per file that was skipped because it is damaged
 */
export function stageOutdatedFiles(archive: Archive, stage: Stage): string[] {
  const refused: string[] = [];
  for (const { dataset, file } of listOutdatedFiles(archive.state.db, stage.base)) {
    try {
      if (dataset === 'coverage' || dataset === 'conflicts')
        stageSplitTable(
          archive,
          stage,
          dataset,
          { day: parseDayStart(file.date!), part: parsePartNumber(file.path) },
          file,
        );
      else stageFile(archive, stage, completeFile(archive, { dataset, file }));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
  }
  return refused;
}

function completeFile(archive: Archive, { dataset, file }: OutdatedFile): EncodedFile {
  if (!hasRows(file)) return encodeEmptyFile({ dataset, path: file.path, date: file.date });
  const columns = listColumns(dataset);
  const published = readPublishedFile(archive, file);
  // Older archives have neither quotes nor trades. Publishes give the same bytes.
  if (candleDatasetNames.includes(dataset)) {
    const rows = decodeRows(
      columns.filter(({ nullable }) => !nullable),
      published,
    );
    const bytes = encodeCandleRows(columns, rows, archive.groupRows);
    return createEncodedFile(dataset, file.path, bytes, file, createRowKeyReader(dataset, rows));
  }
  const rows = completeRows(columns, decodeRows(columns, published));
  const bytes = encodeRows(columns, rows, archive.groupRows);
  return createEncodedFile(dataset, file.path, bytes, file, createRowKeyReader(dataset, rows));
}

const candleDatasetNames: readonly DatasetName[] = Object.values(candleDatasets);

/** Encodes rows of candles without the nullable columns, which follow the others, as a publish encodes them. */
function encodeCandleRows(columns: readonly Column[], rows: readonly CellValue[][], groupRows: number): Uint8Array {
  const symbols: string[] = [];
  const starts: number[] = [];
  for (const [i, [symbol]] of rows.entries()) {
    if (symbol === symbols.at(-1)) continue;
    symbols.push(symbol as string);
    starts.push(i);
  }
  const offsets = Float64Array.from([...starts, rows.length]);
  const toColumn = (c: number): Float64Array => Float64Array.from(rows, (row) => (row[c] ?? Number.NaN) as number);
  const values = Object.fromEntries(columns.slice(1).map(({ name }, c) => [name, toColumn(c + 1)]));
  return encodePartFile({ symbols, offsets }, columns, values, groupRows);
}

/** Sets the new columns whose values follow from older ones. The other new columns stay null. */
function completeRows(columns: readonly Column[], rows: CellValue[][]): CellValue[][] {
  const [outcomeAt, sourceAt] = ['outcome', 'outcome_source'].map((name) => columns.findIndex((c) => c.name === name));
  if (sourceAt! >= 0) for (const row of rows) row[sourceAt!] ??= getOlderOutcomeSource(row[outcomeAt!]);
  return rows;
}

/** Records an upgrade from an older format. Runs in the commit's transaction. */
export function recordUpgrade(db: Database, { base, generation }: Stage): void {
  if (base.format_version === formatVersion) return;
  setMeta(db, upgradedKey, JSON.stringify({ from: base.format_version, generation } satisfies LastUpgrade));
}

function readLastUpgrade(db: Database): LastUpgrade | undefined {
  const text = getMeta(db, upgradedKey);
  return text === undefined ? undefined : (JSON.parse(text) as LastUpgrade);
}

const listColumns = (name: DatasetName): readonly Column[] => (datasets[name] as DatasetDefinition).columns;
