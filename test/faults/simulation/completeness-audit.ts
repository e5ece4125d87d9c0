import type { Manifest } from '../../../src/archive/manifest.ts';
import type { Value } from '../../../src/archive/parquet/parquet.ts';
import type { Covered } from '../../../src/core/coverage.ts';
import { dayFloor, dayMs } from '../../../src/core/window.ts';
import type { Database } from '../../../src/state/database.ts';
import type { Oracle } from './oracle.ts';
import { beyond, endOf } from './spans.ts';

interface Known {
  readonly symbol: string;
  readonly polled_from: number | null;
  readonly first_seen: number;
  readonly opens_at: number | null;
  readonly first_tick: number | null;
  readonly live: number;
}

/** What is wrong with watermark and days of a manifest. `rows`: those of its symbols. */
export function* wrongCompleteness(
  manifest: Manifest,
  covered: ReadonlyMap<string, readonly Covered[]>,
  rows: readonly (readonly Value[])[],
  oracle: Oracle,
  db: Database,
  settleMs: number,
): Generator<string> {
  const { watermark, days } = manifest;
  // Lists that were heard before it was published may have been entered after it: what it knew of is in its symbols.
  const listed = new Set(rows.filter((row) => row[1] !== null && row[5] !== false).map((row) => row[0]));
  const known = db.all<Known & Record<string, number>>(
    `select symbol, polled_from, first_seen, opens_at, first_tick, listed = 1 and inactive_since is null
       and resolved_at is null and retired_at is null and last_seen < ? as live from symbols`,
    manifest.created_at,
  );
  const live = known.filter((symbol) => symbol.live === 1 && listed.has(symbol.symbol));
  for (const { symbol, polled_from, opens_at, first_seen } of live) {
    const end = endOf(covered.get(symbol) ?? [], polled_from ?? opens_at ?? first_seen);
    if (watermark === null || watermark > end) yield `watermark: ${watermark}, and ${symbol} is covered up to ${end}`;
  }
  // Whoever it is that holds it back, it is where he is covered up to.
  const ends = known.flatMap(({ symbol, polled_from, opens_at, first_seen, first_tick }) =>
    [polled_from, opens_at, first_seen, first_tick].map((from) =>
      from === null ? null : endOf(covered.get(symbol) ?? [], from),
    ),
  );
  if (watermark !== null && watermark !== manifest.created_at && !ends.includes(watermark))
    yield `watermark: ${watermark}, and nobody is covered up to there`;
  for (const [date, { complete, expected, covered: had, missing }] of Object.entries(days)) {
    if (missing.length !== Math.min(20, expected - had))
      yield `complete: ${date} expects ${expected} and has ${had} symbols, and misses ${missing}`;
    if (!complete) continue;
    if (had !== expected) yield `complete: ${date}, and it has ${had} of ${expected} symbols`;
    const from = Date.parse(date);
    for (const window of manifest.lost ?? [])
      if (dayFloor(window.from) === from) yield `complete: ${date}, and ${JSON.stringify(window)} is lost`;
    for (const { symbol, opens_at } of live) {
      if (opens_at === null) continue;
      const claims = oracle.covers.get(symbol) ?? [];
      const final = claims.map((w) => ({ from: w.from, to: Math.min(w.to, w.fetchedAt - settleMs) }));
      const holes = beyond([{ from: Math.max(from, opens_at), to: from + dayMs }], final);
      if (holes.length > 0) yield `complete: ${date}, and ${symbol} lacks a final answer for ${JSON.stringify(holes)}`;
    }
  }
}
