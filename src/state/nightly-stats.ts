import type { NightVolume } from '../core/volume-drop.ts';
import type { Database } from './database.ts';

export interface RecordedNight extends NightVolume {
  readonly runId: string;
  /** Counts as in `PolledCounts`; null of a night that an older oddslake remembered. */
  readonly late: number | null;
  readonly conflicts: number | null;
  /** The moment of the market lists that it polled, epoch ms; null where none could be had. */
  readonly listedAt: number | null;
}

const nightsMax = 30;

/** The nights remembered, the latest first; at most 30. */
export const readLastNights = (db: Database): RecordedNight[] =>
  db.all<RecordedNight & Record<string, never>>(
    `select run_id as "runId", polled_to as "polledTo", polled_ms as "polledMs", markets, ticks, late, conflicts,
       listed_at as "listedAt"
     from nights order by polled_to desc limit ?`,
    nightsMax,
  );

export function recordNight(db: Database, night: RecordedNight): void {
  const { runId, polledTo, polledMs, markets, ticks, late, conflicts, listedAt } = night;
  db.transaction(() => {
    db.run(
      `insert or replace into nights (run_id, polled_to, polled_ms, markets, ticks, late, conflicts, listed_at)
       values (?, ?, ?, ?, ?, ?, ?, ?)`,
      runId,
      polledTo,
      polledMs,
      markets,
      ticks,
      late,
      conflicts,
      listedAt,
    );
    db.run(
      'delete from nights where run_id not in (select run_id from nights order by polled_to desc limit ?)',
      nightsMax,
    );
  });
}

/** What polls brought. */
export interface PolledCounts {
  /** Published ticks that were new; */
  readonly ticks: number;
  /** those of them that came after their window was covered; */
  readonly late: number;
  /** and ticks that differ from a published price. */
  readonly conflicts: number;
}

/**
 * What a run brought and polls begun after another one and before it, whichever job polled: a job that polls every hour
 * leaves the night little, and what it begins beside a night is the next one's. What a backfill or an import brought is no
 * poll's.
 */
export function countPolled(db: Database, runId: string, after: string): PolledCounts {
  // Names of runs sort by their time.
  const row = db.one<{ ticks: number | null; late: number | null; conflicts: number | null }>(
    `select sum(accepted + recovered) as ticks, sum(late) as late, sum(conflicts) as conflicts from runs
     where run_id = ?1 or (run_id > ?2 and run_id < ?1 and job in ('nightly', 'ticks'))`,
    runId,
    after,
  );
  return { ticks: row?.ticks ?? 0, late: row?.late ?? 0, conflicts: row?.conflicts ?? 0 };
}
