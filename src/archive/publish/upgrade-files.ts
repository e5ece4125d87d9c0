import { DamageError } from '../../base/errors.ts';
import { type Column, type DatasetDefinition, type DatasetName, datasetNames, datasets } from '../format/datasets.ts';
import { formatVersion, type Manifest, type PublishedFile } from '../format/manifest.ts';
import { getOlderOutcomeSource } from '../format/market-details.ts';
import { type Database, getMeta, setMeta, upgradedKey } from '../journal/database.ts';
import type { Archive } from '../open-archive.ts';
import { createRowKeyReader } from '../parquet/row-group-index.ts';
import { type CellValue, decodeRows, encodeRows } from '../parquet/rows.ts';
import { readPublishedFile } from '../read-published-file.ts';
import { numberConflicts } from './day-tables.ts';
import { createEncodedFile } from './encode-partition.ts';
import { type Stage, stageFile } from './staging.ts';

/** A published file that does not have all columns of the current format. */
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
    .filter((name) => listColumns(name).some(({ since = 1 }) => since > from))
    .flatMap((dataset) =>
      base.datasets[dataset].files
        .filter((file) => file.generation < generation)
        .map((file): OutdatedFile => ({ dataset, file })),
    );
}

/**
 * Rewrites outdated files with all columns. Holds one file in memory.
 * @returns one message per file that was skipped because it is damaged
 */
export function stageOutdatedFiles(archive: Archive, stage: Stage): string[] {
  const refused: string[] = [];
  for (const { dataset, file } of listOutdatedFiles(archive.state.db, stage.base)) {
    const columns = listColumns(dataset);
    try {
      const older = decodeRows(columns, readPublishedFile(archive, file));
      const rows = dataset === 'conflicts' ? numberConflicts(older) : completeRows(columns, older);
      const bytes = encodeRows(columns, rows, archive.groupRows);
      stageFile(archive, stage, createEncodedFile(dataset, file.path, bytes, file, createRowKeyReader(dataset, rows)));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
  }
  return refused;
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
