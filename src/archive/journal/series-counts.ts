import type { SeriesDataset } from '../format/series-datasets.ts';
import type { RunTally } from '../format/tick-columns.ts';
import type { Database } from './database.ts';

/**
 * What became of the rows of a series that a run fetched: fetched = accepted + duplicates + conflicts + quarantined.
 * `recovered`: rows that an interrupted run had journaled, outside that sum.
 */
export interface SeriesCounts extends Readonly<RunTally> {
  readonly fetched: number;
  readonly quarantined: number;
  readonly recovered: number;
}

const countNames = ['fetched', 'quarantined', 'accepted', 'duplicates', 'conflicts', 'recovered'] as const;

/** Adds to the counts of a run, inside the caller's transaction. */
export function addSeriesCounts(
  db: Database,
  runId: string,
  dataset: SeriesDataset,
  added: Partial<SeriesCounts>,
): void {
  const names = countNames.filter((name) => (added[name] ?? 0) !== 0);
  if (names.length === 0) return;
  db.run('insert or ignore into series_counts (run_id, dataset) values (?, ?)', runId, dataset);
  db.run(
    `update series_counts set ${names.map((name) => `${name} = ${name} + ?`).join(', ')} where run_id = ? and dataset = ?`,
    ...names.map((name) => added[name]!),
    runId,
    dataset,
  );
}

/**
 * Counts the rows that a publish of `runId` merged. `isBroken`: whether `ofRun`, which fetched them, was interrupted. Then
 * `runId` recovers the new ones, and the interrupted run no longer counts them, so that each row is accepted or recovered in
 * exactly one run.
 */
export function addSeriesTally(
  db: Database,
  { runId, ofRun, isBroken }: { readonly runId: string; readonly ofRun: string; readonly isBroken: boolean },
  dataset: SeriesDataset,
  tally: RunTally,
): void {
  if (!isBroken) {
    addSeriesCounts(db, ofRun, dataset, tally);
    return;
  }
  const { accepted, duplicates, conflicts } = tally;
  addSeriesCounts(db, runId, dataset, { recovered: accepted });
  // A run that is no longer recorded has no counts.
  db.run(
    'update series_counts set fetched = fetched - ? where run_id = ? and dataset = ?',
    accepted + duplicates + conflicts,
    ofRun,
    dataset,
  );
}

/**
 * Reads the counts of a run. Rows that are still journaled count as accepted.
 */
export function readSeriesCounts(db: Database, runId: string, dataset: SeriesDataset): SeriesCounts {
  return db.snapshot(() => {
    const row = db.one<Record<(typeof countNames)[number], number>>(
      'select * from series_counts where run_id = ? and dataset = ?',
      runId,
      dataset,
    );
    const waiting =
      db.one<{ n: number | null }>(
        `select sum(k.n) as n from journal_series k join journal j on j.id = k.record_id
         where j.run_id = ? and k.dataset = ?`,
        runId,
        dataset,
      )?.n ?? 0;
    const count = (name: (typeof countNames)[number]): number => row?.[name] ?? 0;
    return {
      fetched: count('fetched'),
      quarantined: count('quarantined'),
      accepted: count('accepted') + waiting,
      duplicates: count('duplicates'),
      conflicts: count('conflicts'),
      recovered: count('recovered'),
    };
  });
}

/** Takes over the published rows of an interrupted run. They count as recovered. Joins the caller's transaction. */
export function takeOverSeriesCounts(db: Database, runId: string, brokenId: string): void {
  const rows = db.all<{ dataset: SeriesDataset; accepted: number; recovered: number } & Record<string, never>>(
    'select dataset, accepted, recovered from series_counts where run_id = ?',
    brokenId,
  );
  for (const { dataset, accepted, recovered } of rows)
    addSeriesCounts(db, runId, dataset, { recovered: accepted + recovered });
  db.run(
    `update series_counts set fetched = fetched - accepted - duplicates - conflicts, accepted = 0, duplicates = 0,
       conflicts = 0, recovered = 0 where run_id = ?`,
    brokenId,
  );
}

/** Deletes the counts of runs that are no longer recorded. */
export const pruneSeriesCounts = (db: Database): void =>
  void db.run('delete from series_counts where run_id not in (select run_id from runs)');
