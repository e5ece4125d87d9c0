import type { Night } from '../core/falls.ts';
import type { Database } from './database.ts';

export interface KnownNight extends Night {
  readonly runId: string;
}

const nightsMax = 30;

/** The nights remembered, the latest first; at most 30. */
export const lastNights = (db: Database): KnownNight[] =>
  db.all<KnownNight & Record<string, never>>(
    `select run_id as "runId", polled_to as "polledTo", polled_ms as "polledMs", markets, ticks from nights
     order by polled_to desc limit ?`,
    nightsMax,
  );

export function rememberNight(db: Database, { runId, polledTo, polledMs, markets, ticks }: KnownNight): void {
  db.transaction(() => {
    db.run('insert or replace into nights values (?, ?, ?, ?, ?)', runId, polledTo, polledMs, markets, ticks);
    db.run(
      'delete from nights where run_id not in (select run_id from nights order by polled_to desc limit ?)',
      nightsMax,
    );
  });
}

/**
 * Published ticks that were new in a run and in polls begun after another one, whichever job polled them: a job that
 * polls every hour leaves the night little. What a backfill or an import brought is no poll's.
 */
export const polledTicks = (db: Database, runId: string, after: string): number =>
  // Names of runs sort by their time.
  db.one<{ n: number | null }>(
    `select sum(accepted + recovered) as n from runs
     where run_id = ?1 or (run_id > ?2 and job in ('nightly', 'ticks'))`,
    ...[runId, after],
  )?.n ?? 0;
