import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { type SeriesDataset, seriesDatasets } from '../../src/archive/format/series-datasets.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import type { Database } from '../../src/archive/journal/database.ts';
import { readSeriesCounts } from '../../src/archive/journal/series-counts.ts';
import { toStateFilePath } from '../../src/archive/journal/state.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { dayMs, union } from '../../src/base/window.ts';
import { dayHashes } from '../harness/day-hashes.ts';
import { filterFilesWithRows } from '../harness/files-with-rows.ts';
import { quarantineLines } from '../harness/quarantine.ts';
import { archiveOf, filesBelow, hashOf, privateOf } from './place.ts';

// The content of a place at the end, and the invariants at any time.

/** What was accepted: equal before and after a process died. */
export interface Accepted {
  readonly generation: number;
  readonly journaled: number;
  /** Journaled rows of series. */
  readonly series: number;
}

const noneAccepted: Accepted = { generation: 0, journaled: 0, series: 0 };

export function readAccepted(db: DatabaseSync): Accepted {
  if (db.prepare("select 1 from sqlite_master where name = 'journal_ticks'").get() === undefined) return noneAccepted;
  const generation = db.prepare("select value from meta where key = 'generation'").get()?.value ?? 0;
  const journaled = db.prepare('select coalesce(sum(n), 0) as n from journal_ticks').get()!.n;
  const hasSeries = db.prepare("select 1 from sqlite_master where name = 'journal_series'").get() !== undefined;
  const series = hasSeries ? db.prepare('select coalesce(sum(n), 0) as n from journal_series').get()!.n : 0;
  return { generation: Number(generation), journaled: Number(journaled), series: Number(series) };
}

export function readAcceptedIn(place: string): Accepted {
  const path = toStateFilePath(privateOf(place));
  if (!existsSync(path)) return noneAccepted;
  const db = new DatabaseSync(path);
  try {
    return readAccepted(db);
  } finally {
    db.close();
  }
}

/** sha256 of the Parquet files that a glob matches, by path. */
export const globbed = (place: string): Map<string, string> =>
  new Map(
    existsSync(archiveOf(place))
      ? filesBelow(archiveOf(place))
          .filter((path) => !path.startsWith('.oddslake') && path.endsWith('.parquet'))
          .map((path) => [path, hashOf(join(archiveOf(place), path))])
      : [],
  );

/**
 * The parts of the files at the root that may differ: they depend on generations, and an interrupted run can add one.
 */
const texts = /(^|\/)(manifest\.json|SHA256SUMS|README\.md|views\.sql)$/;

/**
 * Everything that must be equal after a fault and one more run, compared with no fault. Files without rows need not be:
 * they depend on which rows were published together.
 */
export async function outcomeOf(
  place: string,
  runs: readonly string[],
  asks = false,
): Promise<Record<string, unknown>> {
  const paths = filesBelow(place).filter(
    (path) => !path.startsWith('archive/.oddslake/') && !path.startsWith('input/'),
  );
  const differs = (path: string): boolean => texts.test(path) || (asks && path.startsWith('archive/coverage/'));
  const hashed = dayHashes(place, filterFilesWithRows(place, paths));
  const files = Object.fromEntries(Object.entries(hashed).map(([path, hash]) => [path, differs(path) ? '' : hash]));
  const root = archiveOf(place);
  const given = { root, create: false, upstream: null, parts: 2, writer: 'oddslake test' };
  const archive = openArchive(given, systemDisk);
  try {
    const { db } = archive.state;
    const counts = db.all<{ run_id: string; fetched: number; sum: number; journaled: number }>(
      `select run_id, fetched, accepted, duplicates, conflicts,
         accepted + duplicates + conflicts + quarantined + (select coalesce(sum(n), 0) from journal_ticks k join journal j
           on j.id = k.record_id where j.run_id = runs.run_id) as sum from runs`,
    );
    const countRows = (dataset: 'ticks' | SeriesDataset): number =>
      archive.readManifest().datasets[dataset].files.reduce((sum, file) => sum + file.rows, 0);
    const seriesCounts = db
      .all<{ run_id: string; dataset: SeriesDataset } & Record<string, never>>(
        'select run_id, dataset from series_counts',
      )
      .map(({ run_id: runId, dataset }) => ({ runId, dataset, ...readSeriesCounts(db, runId, dataset) }));
    const { journaled, series } = readAcceptedIn(place);
    return {
      files,
      counts: counts.filter((run) => runs.includes(run.run_id)),
      unbalanced: counts.filter(({ fetched, sum }) => fetched !== sum),
      symbols: db.all('select symbol, ticks, first_tick, last_tick from symbols'),
      ...(asks ? listCovered(db) : { coverage: db.all('select * from coverage') }),
      precedence: db.all('select dataset, symbol, day, hex(windows) as windows from precedence'),
      lost: db.all('select dataset, symbol, t_from, t_to, ticks from lost'),
      aside: listQuarantined(root),
      quarantine: quarantineLines(root),
      findings: (await verifyArchive(archive, null)).findings,
      journaled,
      series,
      unbalancedSeries: seriesCounts.filter(
        (run) => run.fetched !== run.accepted + run.duplicates + run.conflicts + run.quarantined,
      ),
      // Each row is accepted or recovered once.
      uncountedSeries: seriesDatasets.map(
        (dataset) =>
          countRows(dataset) -
          seriesCounts
            .filter((run) => run.dataset === dataset)
            .reduce((sum, run) => sum + run.accepted + run.recovered, 0),
      ),
      uncounted: countRows('ticks') - db.one<{ n: number }>('select coalesce(sum(ticks), 0) as n from symbols')!.n,
      open: db.all('select generation from intents'),
    };
  } finally {
    archive.close();
  }
}

export const runsIn = (place: string): string[] => {
  if (!existsSync(toStateFilePath(privateOf(place)))) return [];
  const db = new DatabaseSync(toStateFilePath(privateOf(place)));
  const runs = db.prepare('select run_id from runs').all();
  db.close();
  return runs.map(({ run_id }) => String(run_id));
};

/**
 * The windows that are covered by anything, and of those that are proven only whether all are earlier than what no response
 * proves yet. How much a run proves depends on the windows that it asks for; whether it is true, on the ticks, which are
 * compared.
 */
function listCovered(db: Database): Record<string, unknown> {
  const rows = db.all<{ symbol: string; t_from: number; t_to: number; evidence: string; fetched_at: number }>(
    'select * from coverage order by symbol, t_from',
  );
  const covered = Map.groupBy(rows, ({ symbol }) => symbol);
  const early = rows.filter(
    ({ t_to: to, evidence, fetched_at: at }) => evidence !== 'inferred' && to > Math.floor(at / dayMs - 1) * dayMs,
  );
  return {
    covered: [...covered].map(([symbol, of]) => [symbol, union(of.map((row) => ({ from: row.t_from, to: row.t_to })))]),
    early,
  };
}

/** Files that a repair quarantined as evidence. */
function listQuarantined(root: string): string[] {
  const folder = join(root, '.oddslake/damaged');
  if (!existsSync(folder)) return [];
  return [...new Set(filesBelow(folder).map((path) => hashOf(join(folder, path))))].sort();
}
