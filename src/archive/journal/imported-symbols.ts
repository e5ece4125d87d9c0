import type { RejectedInput } from '../../base/ticks.ts';
import type { MarketFacts } from '../format/market.ts';
import type { SeriesDataset } from '../format/series-datasets.ts';
import type { Database } from './database.ts';
import { appendHeader } from './journal.ts';
import { appendRejected } from './journal-rejected.ts';
import { addSeriesCounts } from './series-counts.ts';
import type { State } from './state.ts';
import { insertStatedSql, statedNames, toStatedValues } from './symbol-store.ts';

/**
 * Records the markets of an imported file, seen between `firstSeen` and `lastSeen` (epoch ms). Newer facts are kept;
 * older ones fill in unknown fields. A file is never a complete list and never causes a symbol to be polled.
 */
export function recordImportedMarkets(
  db: Database,
  markets: readonly MarketFacts[],
  firstSeen: number,
  lastSeen: number,
): void {
  const preferNewest = (column: string): string =>
    `${column} = iif(excluded.last_seen >= last_seen, coalesce(excluded.${column}, ${column}), coalesce(${column}, excluded.${column}))`;
  const [first, last] = [1, 2].map((i) => `?${statedNames.length + i}`) as [string, string];
  const seen = { first_seen: first, last_seen: last };
  const activity = { last_active: `iif(?6 is 1, ${last}, null)`, inactive_since: `iif(?6 is 0, ${last}, null)` };
  const facts = statedNames.filter((name) => name !== 'symbol' && name !== 'outcome_source');
  const sql = `${insertStatedSql({ ...seen, ...activity, listed: '0' })}
     on conflict do update set ${facts.map(preferNewest).join(', ')},
       outcome_source = iif(excluded.outcome is not null and (excluded.last_seen >= last_seen or outcome is null),
         excluded.outcome_source, outcome_source),
       inactive_since = iif(excluded.last_seen >= last_seen and excluded.is_active is not null,
         iif(excluded.is_active = 0, coalesce(inactive_since, excluded.inactive_since), null), inactive_since),
       last_active = coalesce(max(last_active, excluded.last_active), last_active, excluded.last_active),
       first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen)`;
  for (const market of markets) db.run(sql, ...toStatedValues(market), firstSeen, lastSeen);
}

/** Rejected input, as received. */
export interface QuarantinedInput extends RejectedInput {
  /** Null if the input names no symbol. */
  readonly symbol: string | null;
  /** When it was observed, epoch ms. */
  readonly at: number;
}

/**
 * Journals rejected input that belongs to no record. It is counted as input of the dataset, and kept as received up to the
 * run's quarantine limit. `dropped` further inputs are counted but not kept.
 */
export function appendQuarantined(
  { db }: State,
  runId: string,
  dataset: 'ticks' | SeriesDataset,
  items: readonly QuarantinedInput[],
  dropped = 0,
): void {
  const count = items.length + dropped;
  if (count === 0) return;
  db.transaction(() => {
    const head = { run_id: runId, kind: dataset, symbol: null, requested_from: null, requested_to: null };
    const record = appendHeader(db, { ...head, observed_at: items[0]?.at ?? 0, origin: 'import', rank: 0 }, 0);
    appendRejected(db, { ...record, runId }, items);
    db.run('update runs set rejected_dropped = rejected_dropped + ? where run_id = ?', dropped, runId);
    if (dataset === 'ticks')
      db.run('update runs set fetched = fetched + ?1, quarantined = quarantined + ?1 where run_id = ?2', count, runId);
    else addSeriesCounts(db, runId, dataset, { fetched: count, quarantined: count });
  });
}
