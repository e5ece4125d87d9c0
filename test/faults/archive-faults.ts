import { createHash } from 'node:crypto';
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { datasets } from '../../src/archive/format/datasets.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { type SeriesDataset, seriesDatasets } from '../../src/archive/format/series-datasets.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { type Database, openDatabase } from '../../src/archive/journal/database.ts';
import type { SeriesCounts } from '../../src/archive/journal/series-counts.ts';
import { archiveExists, openArchive } from '../../src/archive/open-archive.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { dayRows, findWrongWindows, manifestOf, rowHashes, ticksOf, totalTicks } from '../e2e/lake.ts';

// Checks an archive for errors, as far as possible without the program's own `verify`. An empty list means no error.

const rootNames = new Set([
  'README.md',
  'manifest.json',
  'SHA256SUMS',
  'views.sql',
  '.oddslake',
  'ticks',
  'symbols',
  'markets',
  'orderbooks',
  'quotes',
  'trades',
  'quote_conflicts',
  'trade_conflicts',
  'coverage',
  'conflicts',
  'candles_1h',
  'candles_1d',
]);

export const sha256Of = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

/** The archive as a reader with a glob sees it at any time: the number of ticks, of quotes and trades, and errors. */
interface GlobResult {
  readonly ticks: number;
  readonly series: number;
  readonly faults: readonly string[];
}

/** Looks for duplicate keys, damaged part files and orphans. */
export function readGlob(archive: string): GlobResult {
  if (!existsSync(archive)) return { ticks: 0, series: 0, faults: [] };
  const faults = [
    ...readdirSync(archive).filter((name) => !rootNames.has(name)),
    ...globSync('[!.]*/**/*', { cwd: archive, withFileTypes: true }).flatMap((entry) =>
      entry.isFile() && !/^part-\d\d\.parquet$/.test(entry.name) ? [join(entry.parentPath, entry.name)] : [],
    ),
  ].map((name) => `${name} is left behind`);
  try {
    const ticks = [...ticksOf(archive).values()].reduce((sum, rows) => sum + rows.length, 0);
    const series = seriesDatasets.reduce((sum, dataset) => sum + countSeriesRows(archive, dataset), 0);
    return { ticks, series, faults };
  } catch (error) {
    return { ticks: 0, series: 0, faults: [...faults, (error as Error).message] };
  }
}

/** The number of published rows of quotes or trades. @throws Error if a key is there twice */
function countSeriesRows(archive: string, dataset: SeriesDataset): number {
  const { columns, key } = datasets[dataset];
  const keyColumns = columns.flatMap(({ name }, c) => ((key as readonly string[]).includes(name) ? [c] : []));
  const keys = new Set<string>();
  for (const path of globSync(`${dataset}/date=*/*.parquet`, { cwd: archive })) {
    for (const row of decodeRows(columns, readFileSync(join(archive, path)))) {
      const name = JSON.stringify(keyColumns.map((c) => row[c]));
      if (keys.has(name)) throw new Error(`${path}: ${name} again`);
      keys.add(name);
    }
  }
  return keys.size;
}

export const findGlobErrors = (archive: string): readonly string[] => readGlob(archive).faults;

/** Files that differ from the tree's own manifest or are missing from it. */
export function findTreeErrors(root: string): string[] {
  const { datasets } = manifestOf(root);
  const named = new Map(Object.values(datasets).flatMap(({ files }) => files.map((file) => [file.path, file.sha256])));
  const present = globSync('[!.]*/**/*.parquet', { cwd: root });
  return [
    ...[...named].flatMap(([path, hash]) => {
      if (!existsSync(join(root, path))) return [`${path} is missing`];
      return sha256Of(join(root, path)) === hash ? [] : [`${path} differs`];
    }),
    ...present.filter((path) => !named.has(path)).map((path) => `${path} is in no manifest`),
    ...readFileSync(join(root, 'SHA256SUMS'), 'utf8')
      .trimEnd()
      .split('\n')
      .flatMap((line) => (named.get(line.slice(66)) === line.slice(0, 64) ? [] : [`SHA256SUMS: ${line}`])),
  ];
}

/**
 * Runs whose tick counts do not add up, and ticks that no run or several runs counted as accepted. @param before ticks
 * at the start
 */
function findCountErrors(archive: string, before: number): string[] {
  const db = openDatabase(join(archive, '.oddslake', 'state.sqlite'), 5_000);
  try {
    const runs =
      db.all<Record<'fetched' | 'accepted' | 'recovered' | 'duplicates' | 'conflicts' | 'quarantined', number>>(
        'select * from runs',
      );
    const accepted = runs.reduce((sum, run) => sum + run.accepted + run.recovered, before);
    const total = totalTicks(archive);
    const journaled = db.one<{ n: number }>('select count(*) as n from journal')!.n;
    return [
      ...runs
        .filter((run) => run.fetched !== run.accepted + run.duplicates + run.conflicts + run.quarantined)
        .map((run) => `does not add up: ${JSON.stringify(run)}`),
      ...(accepted === total ? [] : [`${accepted} ticks were accepted, ${total} are published`]),
      ...seriesDatasets.flatMap((dataset) => findSeriesCountErrors(archive, db, dataset)),
      ...(journaled === 0 ? [] : [`${journaled} records are still journaled`]),
    ];
  } finally {
    db.close();
  }
}

/** The same of quotes or trades, of which there were none at the start. */
function findSeriesCountErrors(archive: string, db: Database, dataset: SeriesDataset): string[] {
  const runs = db.all<Record<keyof SeriesCounts, number>>('select * from series_counts where dataset = ?', dataset);
  const accepted = runs.reduce((sum, run) => sum + run.accepted + run.recovered, 0);
  const total = countSeriesRows(archive, dataset);
  return [
    ...runs
      .filter((run) => run.fetched !== run.accepted + run.duplicates + run.conflicts + run.quarantined)
      .map((run) => `does not add up: ${JSON.stringify(run)}`),
    ...(accepted === total ? [] : [`${accepted} ${dataset} were accepted, ${total} are published`]),
  ];
}

/** All errors after the last run. @param before ticks of runs that the state has lost; null: unknown */
export const findArchiveErrors = (archive: string, box: Sandbox, before: number | null = 0): string[] => [
  ...findGlobErrors(archive),
  ...findTreeErrors(archive),
  ...findWrongWindows(archive, box),
  ...(before === null ? [] : findCountErrors(archive, before)),
];

/** Findings of the program's own check; empty while there is no archive yet. */
export async function runVerify(archive: string): Promise<string[]> {
  if (!archiveExists(archive, systemDisk)) return [];
  const options = { root: archive, create: false, upstream: null, parts: 4, writer: 'oddslake' };
  const opened = openArchive(options, systemDisk);
  try {
    const { findings, files } = await verifyArchive(opened, null);
    const listed = listManifestFiles(opened.readManifest()).length;
    return [
      ...findings.map(({ path, kind }) => `verify: ${path} ${kind}`),
      ...(files === listed ? [] : [`verify checked ${files} of ${listed} files`]),
    ];
  } finally {
    opened.close();
  }
}

/**
 * What must not depend on faults: the rows, and the days. Whether a day is complete does: it depends on
 * the windows that the last run asked for, and `findArchiveErrors` holds what is covered against the service.
 */
export const readContents = (archive: string): Contents => ({
  files: rowHashes(archive, 'ticks', 'candles_1h', 'candles_1d', 'orderbooks', 'quotes', 'trades'),
  rows: dayRows(archive, 'ticks', 'candles_1h', 'candles_1d', 'orderbooks', 'quotes', 'trades'),
  ticks: totalTicks(archive),
  days: Object.keys(manifestOf(archive).days),
});

export interface Contents {
  /** sha256 of each file with rows. */
  readonly files: Readonly<Record<string, string>>;
  /** The rows of each day: which files have them depends on what was published together. */
  readonly rows: Readonly<Record<string, string>>;
  readonly ticks: number;
  readonly days: readonly string[];
}
