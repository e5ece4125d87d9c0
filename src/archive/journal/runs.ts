import type { RunTally } from '../format/tick-columns.ts';
import type { Database } from './database.ts';

export interface RunCounts {
  readonly fetched: number;
  readonly quarantined: number;
  readonly accepted: number;
  readonly duplicates: number;
  readonly conflicts: number;
  readonly recovered: number;
  /** Ticks by which its generations, and those of broken runs that it took over, have more, and less, than before. */
  readonly added: number;
  readonly lost: number;
}

export interface LastRun {
  readonly runId: string;
  readonly job: string;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly exitCode: number | null;
}

/** Runs of this process that are not finished. */
const startedHere = new Set<string>();

/** Bytes of rejected input that a run keeps as received unless it says otherwise. */
export const rejectedBytesMaxDefault = 16 * 1024 * 1024;

/** Opens a run; of the past, the newest `runsMax` and each job's last one are remembered. */
export function startRun(
  db: Database,
  runId: string,
  job: string,
  pid: number,
  nowMs: number,
  rejectedBytesMax = rejectedBytesMaxDefault,
): void {
  startedHere.add(runId);
  db.transaction(() => {
    db.run(
      'insert into runs (run_id, job, pid, started_at, rejected_bytes_left) values (?, ?, ?, ?, ?)',
      runId,
      job,
      pid,
      nowMs,
      rejectedBytesMax,
    );
    takeOverBrokenRuns(db, runId);
    db.run(
      `delete from runs where finished_at is not null and run_id not in (select run_id from runs order by started_at desc limit ?)
         and started_at < (select max(started_at) from runs same where same.job = runs.job)`,
      runsMax,
    );
  });
}

const runsMax = 1000;

export function finishRun(db: Database, runId: string, nowMs: number, exitCode: number, summary: string): void {
  startedHere.delete(runId);
  db.run(
    'update runs set finished_at = ?, exit_code = ?, summary = ? where run_id = ?',
    nowMs,
    exitCode,
    summary,
    runId,
  );
}

/** Whether a run's process is over: what it journaled is another run's to recover. */
export function isRunOver(db: Database, runId: string): boolean {
  const row = db.one<{ pid: number; finished_at: number | null }>(
    'select pid, finished_at from runs where run_id = ?',
    runId,
  );
  if (row === undefined || row.finished_at !== null) return true;
  // In a container every run may have our number: ours are those begun here.
  if (row.pid === process.pid) return !startedHere.has(runId);
  try {
    process.kill(row.pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'EPERM';
  }
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

/** Counts new ticks that came after their window was covered; in the publish's transaction. */
export function addLateTickCount(db: Database, runId: string, ticks: number): void {
  db.run('update runs set late = late + ? where run_id = ?', ticks, runId);
}

/** Counts ticks that a publish takes in without their having been journaled; in its transaction. */
export function addFetchedTicks(db: Database, runId: string, ticks: number): void {
  db.run('update runs set fetched = fetched + ? where run_id = ?', ticks, runId);
}

/**
 * Counts ticks of a broken run that `runId` publishes: the new ones are recovered, and none of them is the broken run's own
 * any more. So each tick is accepted by one run or recovered by one.
 */
export function addRecoveredTicks(db: Database, runId: string, brokenId: string, tally: RunTally): void {
  const { accepted, duplicates, conflicts } = tally;
  db.run('update runs set recovered = recovered + ? where run_id = ?', accepted, runId);
  db.run('update runs set fetched = fetched - ? where run_id = ?', accepted + duplicates + conflicts, brokenId);
}

/** Ticks by which a generation has more, and less, than the one before; in its transaction. */
export function addPublishedTicks(db: Database, runId: string, { added, lost }: { added: number; lost: number }): void {
  db.run(
    'update runs set published_added = published_added + ?, published_lost = published_lost + ? where run_id = ?',
    added,
    lost,
    runId,
  );
}

/** Tells which runs are broken: over, without having told how they ended. `runId` is not. Each is looked up once. */
export function createBrokenRunCheck(db: Database, runId: string): (other: string) => boolean {
  const known = new Map([[runId, false]]);
  return (other) => {
    const told = known.get(other);
    if (told !== undefined) return told;
    const hasEnded = 'select 1 from runs where run_id = ? and finished_at is not null';
    const isBroken = isRunOver(db, other) && db.one(hasEnded, other) === undefined;
    known.set(other, isBroken);
    return isBroken;
  };
}

/** Takes over what broken runs had published and could tell nobody: it counts as recovered. */
function takeOverBrokenRuns(db: Database, runId: string): void {
  const unfinished = db.all<{ run_id: string }>(
    `select run_id from runs where finished_at is null and run_id <> ?
       and accepted + duplicates + conflicts + recovered + published_added + published_lost > 0`,
    runId,
  );
  for (const { run_id: brokenId } of unfinished) {
    if (!isRunOver(db, brokenId)) continue;
    const sums = ['accepted', 'recovered', 'published_added', 'published_lost'] as const;
    const of = db.one<Record<(typeof sums)[number], number>>('select * from runs where run_id = ?', brokenId)!;
    db.run('update runs set recovered = recovered + ? where run_id = ?', of.accepted + of.recovered, runId);
    addPublishedTicks(db, runId, { added: of.published_added, lost: of.published_lost });
    db.run(
      `update runs set fetched = fetched - accepted - duplicates - conflicts, accepted = 0, duplicates = 0, conflicts = 0,
         recovered = 0, published_added = 0, published_lost = 0 where run_id = ?`,
      brokenId,
    );
  }
}

/** The counts of a run. `waiting`: what becomes of its ticks that wait in the journal; all of them accepted where it is not given. */
export function readRunCounts(db: Database, runId: string, waiting?: RunTally): RunCounts {
  return db.snapshot(() => {
    const row = db.one<Record<string, number>>('select * from runs where run_id = ?', runId);
    const more = waiting ?? { accepted: countWaitingTicks(db, runId), duplicates: 0, conflicts: 0 };
    const count = (name: string): number => row?.[name] ?? 0;
    return {
      fetched: count('fetched'),
      quarantined: count('quarantined'),
      recovered: count('recovered'),
      accepted: count('accepted') + more.accepted,
      duplicates: count('duplicates') + more.duplicates,
      conflicts: count('conflicts') + more.conflicts,
      added: count('published_added'),
      lost: count('published_lost'),
    };
  });
}

/** Ticks of a run that are journaled and not published. */
export const countWaitingTicks = (db: Database, runId: string): number =>
  db.one<{ n: number | null }>(
    'select sum(k.n) as n from journal_ticks k join journal j on j.id = k.record_id where j.run_id = ?',
    runId,
  )?.n ?? 0;

/** Rejected rows of a run that were counted and not kept. */
export const countDroppedRejects = (db: Database, runId: string): number =>
  db.one<{ n: number }>('select rejected_dropped as n from runs where run_id = ?', runId)?.n ?? 0;

/** When a job last started, by the runs remembered; null where it never did. */
export const readLastStart = (db: Database, job: string): number | null =>
  db.one<{ at: number | null }>('select max(started_at) as at from runs where job = ?', job)?.at ?? null;

/** The last run of a job that has ended, as it was kept. */
export interface EndedRun {
  readonly job: string;
  readonly startedAt: number;
  readonly exitCode: number | null;
  /** The summary, as JSON. */
  readonly summary: string | null;
  /** When the job last ended with 0, by the runs remembered; null where it never did. */
  readonly succeededAt: number | null;
}

/** The last run of each job that has ended; one that ended after `untilMs` did so by a clock that was wrong. */
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
    // Beside max() stand the other columns of the row that has it: https://sqlite.org/lang_select.html#bareagg
    const rows = db.all<{ job: string; started_at: number; exit_code: number | null; summary: string | null }>(
      'select job, started_at, max(finished_at), exit_code, summary from runs where finished_at <= ? group by job',
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

export function readLastRun(db: Database): LastRun | undefined {
  const row = db.one<{
    run_id: string;
    job: string;
    started_at: number;
    finished_at: number | null;
    exit_code: number | null;
  }>('select run_id, job, started_at, finished_at, exit_code from runs order by started_at desc, run_id desc limit 1');
  if (row === undefined) return undefined;
  const { run_id: runId, job, started_at: startedAt, finished_at: finishedAt, exit_code: exitCode } = row;
  return { runId, job, startedAt, finishedAt, exitCode };
}

export interface RecordedRun extends LastRun {
  /** What its end said of it, JSON; null while it is under way, or where it was broken off. */
  readonly summary: string | null;
}

const runColumnsSql = `run_id as "runId", job, started_at as "startedAt", finished_at as "finishedAt", exit_code as "exitCode",
  summary`;

/** The newest runs that began by a moment (epoch ms), at most so many, the oldest of them first. */
export const readLatestRuns = (db: Database, countMax: number, untilMs: number): RecordedRun[] =>
  db
    .all<RecordedRun & Record<string, never>>(
      `select ${runColumnsSql} from runs where started_at <= ? order by started_at desc, run_id desc limit ?`,
      untilMs,
      countMax,
    )
    .reverse();

/** The newest run of a job that is over, of those that began by a moment (epoch ms). */
export const readLatestEndedRun = (db: Database, job: string, untilMs: number): RecordedRun | undefined =>
  db.one<RecordedRun & Record<string, never>>(
    `select ${runColumnsSql} from runs where job = ? and finished_at is not null and started_at <= ?
     order by started_at desc, run_id desc limit 1`,
    job,
    untilMs,
  );

/** Fields of a summary that had another name before 0.2, by the path of what they are in. */
const renamedSummaryFields: readonly (readonly [path: readonly string[], before: string, now: string])[] = [
  [[], 'covered_to', 'reached'],
  [['rate'], 'waited_ms', 'wait_ms'],
  [['night'], 'too_late', 'fetched_late'],
  [['night', 'markets'], 'gone', 'delisted'],
];

/**
 * A recorded summary, with the names that its fields have now. Its shape is not checked.
 * @throws SyntaxError for a text that is no JSON
 */
export function parseRunSummary(text: string): unknown {
  const summary: unknown = JSON.parse(text);
  for (const [path, before, now] of renamedSummaryFields) {
    let object: unknown = summary;
    for (const name of path) object = isObject(object) ? object[name] : undefined;
    if (!isObject(object) || !Object.hasOwn(object, before)) continue;
    if (!Object.hasOwn(object, now)) object[now] = object[before];
    delete object[before];
  }
  return summary;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
