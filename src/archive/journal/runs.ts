import { formatIsoUtc } from '../../base/time.ts';
import { dayMs } from '../../base/window.ts';
import type { RunTally } from '../format/tick-columns.ts';
import type { Database } from './database.ts';
import type { Summary } from './run-summary.ts';
import { pruneSeriesCounts, takeOverSeriesCounts } from './series-counts.ts';

/** Unfinished runs of this process. */
const startedRunIds = new Set<string>();

/** Maximum bytes of rejected input that a run keeps as received, before compression. Further input is only counted. */
const runRejectedBytesMax = 16 * 1024 * 1024;

/**
 * Starts a run. Of past runs, the newest `runsMax` and the last of each job are kept.
 * @param source the source that it collects, of an archive's several
 */
export function startRun(
  db: Database,
  runId: string,
  job: string,
  pid: number,
  nowMs: number,
  rejectedBytesMax = runRejectedBytesMax,
  source: string | null = null,
): void {
  startedRunIds.add(runId);
  db.transaction(() => {
    db.run(
      'insert into runs (run_id, job, pid, started_at, rejected_bytes_left, source) values (?, ?, ?, ?, ?, ?)',
      runId,
      job,
      pid,
      nowMs,
      rejectedBytesMax,
      source,
    );
    takeOverInterruptedRuns(db, runId);
    db.run(
      `delete from runs where finished_at is not null and run_id not in (select run_id from runs order by started_at desc limit ?)
         and started_at < (select max(started_at) from runs same where same.job = runs.job and same.source is runs.source)`,
      runsMax,
    );
    pruneSeriesCounts(db);
  });
}

const runsMax = 1000;

/**
 * Records the end of a run.
 * @param exitCode null if its job has other runs: until `endJob`, readers see a job that has not ended
 */
export function finishRun(db: Database, runId: string, nowMs: number, exitCode: number | null, summary: string): void {
  startedRunIds.delete(runId);
  db.run(
    'update runs set finished_at = ?, exit_code = ?, summary = ? where run_id = ?',
    nowMs,
    exitCode,
    summary,
    runId,
  );
}

/**
 * Ends a job of several runs: records its exit code, and what was found of all of them, with each that has ended. Their
 * summaries stay their own otherwise.
 */
export function endJob(
  db: Database,
  runIds: readonly string[],
  { exit_code: exitCode, verdict, findings }: Pick<Summary, 'exit_code' | 'verdict' | 'findings'>,
): void {
  db.transaction(() => {
    for (const runId of runIds)
      db.run(
        `update runs set exit_code = ?, summary = json_set(summary, '$.findings', json(?), '$.verdict', json(?))
           where run_id = ? and finished_at is not null`,
        exitCode,
        JSON.stringify(findings),
        JSON.stringify(verdict),
        runId,
      );
  });
}

/** Whether a run's process has ended, so that another run can recover what it journaled. */
export function isRunOver(db: Database, runId: string): boolean {
  const row = db.one<{ pid: number; exit_code: number | null }>(
    'select pid, exit_code from runs where run_id = ?',
    runId,
  );
  if (row === undefined || row.exit_code !== null) return true;
  // In containers, runs may share a process ID. Runs of this process are those started here.
  if (row.pid === process.pid) return !startedRunIds.has(runId);
  try {
    process.kill(row.pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'EPERM';
  }
}

interface UnfinishedRun {
  readonly job: string;
  readonly pid: number;
  readonly startedAt: number;
}

/** The other runs of this archive whose processes are at work, the first started first. Times in epoch ms. */
export const listUnfinishedRuns = (db: Database, ownRunId: string): readonly UnfinishedRun[] =>
  db
    .all<{ runId: string; job: string; pid: number; startedAt: number }>(
      `select run_id as "runId", job, pid, started_at as "startedAt" from runs
       where finished_at is null and run_id <> ? order by started_at, run_id`,
      ownRunId,
    )
    .filter(({ runId }) => !isRunOver(db, runId));

/** A sentence, with a trailing space, that names the other runs that have not ended. Empty if there is none. */
export function formatUnfinishedRuns(db: Database, ownRunId: string): string {
  const names = listUnfinishedRuns(db, ownRunId).map(
    ({ job, pid, startedAt }) => `${job} (process ${pid}, since ${formatIsoUtc(startedAt)})`,
  );
  return names.length === 0 ? '' : `Not ended: ${names.join(', ')}. `;
}

export function addRunTally(db: Database, runId: string, tally: RunTally): void {
  db.run(
    'update runs set accepted = accepted + ?, duplicates = duplicates + ?, conflicts = conflicts + ? where run_id = ?',
    tally.accepted,
    tally.duplicates,
    tally.conflicts,
    runId,
  );
}

/** Adds ticks that were published but never journaled to a run's count, inside the publish's transaction. */
export function addFetchedTicks(db: Database, runId: string, ticks: number): void {
  db.run('update runs set fetched = fetched + ? where run_id = ?', ticks, runId);
}

/**
 * Counts ticks of an interrupted run that `runId` publishes. New ones are recovered by `runId` and no longer counted by
 * the interrupted run, so each tick counts as accepted or recovered in exactly one run.
 */
export function addRecoveredTicks(db: Database, runId: string, brokenId: string, tally: RunTally): void {
  const { accepted, duplicates, conflicts } = tally;
  db.run('update runs set recovered = recovered + ? where run_id = ?', accepted, runId);
  db.run('update runs set fetched = fetched - ? where run_id = ?', accepted + duplicates + conflicts, brokenId);
}

/** Adds the ticks that a generation added and removed to a run's counts, inside the publish's transaction. */
export function addPublishedTicks(db: Database, runId: string, { added, lost }: { added: number; lost: number }): void {
  db.run(
    'update runs set published_added = published_added + ?, published_lost = published_lost + ? where run_id = ?',
    added,
    lost,
    runId,
  );
}

/**
 * Returns a check for the interrupted runs, which ended without a result, whose ticks `runId` recovers. `runId` is
 * never one. Ticks of another source stay with their run, until the next run of that source takes them over. Results
 * are cached.
 */
export function createInterruptedRunCheck(db: Database, runId: string): (otherId: string) => boolean {
  const known = new Map([[runId, false]]);
  return (otherId) => {
    const cached = known.get(otherId);
    if (cached !== undefined) return cached;
    const isOther = `select 1 from runs where run_id = ?
      and (finished_at is not null or source is not (select source from runs where run_id = ?))`;
    const isBroken = isRunOver(db, otherId) && db.one(isOther, otherId, runId) === undefined;
    known.set(otherId, isBroken);
    return isBroken;
  };
}

/**
 * Takes over the published ticks of interrupted runs. They count as recovered. Only runs of the same source, or without
 * one as this run, are taken over. Joins the caller's transaction.
 */
function takeOverInterruptedRuns(db: Database, runId: string): void {
  const unfinished = db.all<{ run_id: string }>(
    `select run_id from runs where finished_at is null and run_id <> ?1
       and source is (select source from runs where run_id = ?1)
       and (accepted + duplicates + conflicts + recovered + published_added + published_lost > 0
         or exists (select 1 from series_counts c
           where c.run_id = runs.run_id and c.accepted + c.duplicates + c.conflicts + c.recovered > 0))`,
    runId,
  );
  for (const { run_id: brokenId } of unfinished) {
    if (!isRunOver(db, brokenId)) continue;
    const sums = ['accepted', 'recovered', 'published_added', 'published_lost'] as const;
    const counts = db.one<Record<(typeof sums)[number], number>>('select * from runs where run_id = ?', brokenId)!;
    db.run('update runs set recovered = recovered + ? where run_id = ?', counts.accepted + counts.recovered, runId);
    addPublishedTicks(db, runId, { added: counts.published_added, lost: counts.published_lost });
    db.run(
      `update runs set fetched = fetched - accepted - duplicates - conflicts, accepted = 0, duplicates = 0, conflicts = 0,
         recovered = 0, published_added = 0, published_lost = 0 where run_id = ?`,
      brokenId,
    );
    takeOverSeriesCounts(db, runId, brokenId);
  }
}

/**
 * Reads the counts of a run. `waiting` is the outcome of its journaled ticks; by default all of them count as accepted.
 */
export function readRunCounts(db: Database, runId: string, waiting?: RunTally) {
  return db.snapshot(() => {
    const row = db.one<Record<string, number>>('select * from runs where run_id = ?', runId);
    const waitingTally = waiting ?? { accepted: countWaitingTicks(db, runId), duplicates: 0, conflicts: 0 };
    const count = (name: string): number => row?.[name] ?? 0;
    return {
      fetched: count('fetched'),
      quarantined: count('quarantined'),
      recovered: count('recovered'),
      accepted: count('accepted') + waitingTally.accepted,
      duplicates: count('duplicates') + waitingTally.duplicates,
      conflicts: count('conflicts') + waitingTally.conflicts,
      // Published ticks added and removed by its generations, including those of interrupted runs that it took over.
      added: count('published_added'),
      lost: count('published_lost'),
    };
  });
}

/** Counts the ticks of a run that are journaled and not published. */
export const countWaitingTicks = (db: Database, runId: string): number =>
  db.one<{ n: number | null }>(
    'select sum(k.n) as n from journal_ticks k join journal j on j.id = k.record_id where j.run_id = ?',
    runId,
  )?.n ?? 0;

/** Counts the rejected inputs of a run that were not kept. */
export const countDroppedRejects = (db: Database, runId: string): number =>
  db.one<{ n: number }>('select rejected_dropped as n from runs where run_id = ?', runId)?.n ?? 0;

/**
 * Reads when a job last started, among the recorded runs; null if never.
 * @param source only the runs that collected this source; null: all runs
 */
export const readLastStart = (db: Database, job: string, source: string | null = null): number | null =>
  db.one<{ at: number | null }>(
    'select max(started_at) as at from runs where job = ?1 and (?2 is null or source = ?2)',
    job,
    source,
  )?.at ?? null;

/** The last ended run of a job. */
export interface EndedRun {
  readonly job: string;
  readonly startedAt: number;
  readonly exitCode: number | null;
  /** The summary as JSON. */
  readonly summary: string | null;
  /** When the job last ended with exit code 0, among the recorded runs; null if never. */
  readonly succeededAt: number | null;
}

/**
 * Reads the last ended run of each job. An end after `untilMs` is ignored, because its clock was wrong. A run whose job
 * has not ended is ignored too: the runs for the other sources may fail.
 */
export function readLastEndedRuns(db: Database, untilMs: number): EndedRun[] {
  return db.snapshot(() => {
    const succeeded = new Map(
      db
        .all<{ job: string; at: number }>(
          'select job, max(finished_at) as at from runs where exit_code = 0 and finished_at <= ? group by job',
          untilMs,
        )
        .map(({ job, at }) => [job, at]),
    );
    // SQLite takes the bare columns from the row that has the max(): https://sqlite.org/lang_select.html#bareagg
    const rows = db.all<{ job: string; started_at: number; exit_code: number | null; summary: string | null }>(
      `select job, started_at, max(finished_at), exit_code, summary from runs
         where finished_at <= ? and exit_code is not null group by job`,
      untilMs,
    );
    return rows.map(({ job, started_at: startedAt, exit_code: exitCode, summary }) => ({
      job,
      startedAt,
      exitCode,
      summary,
      succeededAt: succeeded.get(job) ?? null,
    }));
  });
}

/** When a run ended; null until its job has ended too, because the runs for the other sources may fail. */
const jobEndSql = 'case when exit_code is not null then finished_at end';

export interface RecordedRun {
  readonly runId: string;
  readonly job: string;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly exitCode: number | null;
  /** The summary as JSON; null while it is running, or if it was interrupted. */
  readonly summary: string | null;
  /** The source that it collected, of an archive's several. */
  readonly source: string | null;
}

const runColumnsSql = `run_id as "runId", job, source, started_at as "startedAt", ${jobEndSql} as "finishedAt",
  exit_code as "exitCode", case when exit_code is not null then summary end as summary`;

/** Reads the newest runs that started by `untilMs` (epoch ms), at most `countMax`, oldest first. */
export const readLatestRuns = (db: Database, countMax: number, untilMs: number): RecordedRun[] =>
  db
    .all<RecordedRun & Record<string, never>>(
      `select ${runColumnsSql} from runs where started_at <= ? order by started_at desc, run_id desc limit ?`,
      untilMs,
      countMax,
    )
    .reverse();

/** A recorded run. Times in epoch ms. */
export interface PastRun extends Omit<RecordedRun, 'summary'> {
  /** `running`: its process is alive. `interrupted`: its process ended without recording an end. */
  readonly state: 'ended' | 'running' | 'interrupted';
  readonly summary: Summary | null;
}

export function toPastRun(db: Database, { summary, ...run }: RecordedRun): PastRun {
  const state = run.finishedAt !== null ? 'ended' : isRunOver(db, run.runId) ? 'interrupted' : 'running';
  return { ...run, state, summary: summary === null ? null : (JSON.parse(summary) as Summary) };
}

/**
 * Reads the last ended nightly of each source, and of the runs since the newest of each job, source and exit code, oldest
 * first, without live reads: a failure stays until its job succeeds, however many runs follow. A source without a nightly
 * in the week before the last one is not collected any more. A start after `untilMs` (epoch ms) is ignored, because its
 * clock was wrong.
 */
export function readCurrentRuns(db: Database, untilMs: number): PastRun[] {
  // SQLite takes the bare columns from the row that has the max(): https://sqlite.org/lang_select.html#bareagg
  return db
    .all<RecordedRun & { last: number }>(
      `with nights as (select source, max(started_at) as at from runs
         where job = 'nightly' and exit_code is not null and started_at <= ?1 group by source)
       select ${runColumnsSql}, max(started_at) as last from runs
       where job <> 'live' and started_at <= ?1
         and started_at >= coalesce((select at from nights where nights.source is runs.source), (select max(at) from nights), 0)
         and started_at >= coalesce((select max(at) from nights), 0) - ?2
       group by job, source, exit_code order by last, run_id`,
      untilMs,
      7 * dayMs,
    )
    .map(({ last: _, ...run }) => toPastRun(db, run));
}

/** Reads the summaries of the newest ended runs of a source, as JSON. @param source null: the only service */
export const readLatestSummaries = (db: Database, source: string | null, countMax: number, untilMs: number): string[] =>
  db
    .all<{ summary: string }>(
      `select summary from runs where source is ? and summary is not null and finished_at <= ?
       order by run_id desc limit ?`,
      source,
      untilMs,
      countMax,
    )
    .map(({ summary }) => summary);
