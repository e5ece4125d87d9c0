import type { Database } from './database.ts';

/** The change of a symbol's published ticks by a publish. */
export interface TickDelta {
  readonly symbol: string;
  readonly added: number;
  readonly first: number;
  readonly last: number;
}

/** Adds ticks to the counts of symbols. A symbol may have several deltas, as it has one for each day; it is written once. */
export function addTickDeltas(db: Database, deltas: readonly TickDelta[], nowMs: number): void {
  const bySymbol = new Map<string, TickDelta>();
  for (const delta of deltas) {
    const other = bySymbol.get(delta.symbol);
    bySymbol.set(delta.symbol, other === undefined ? delta : joinTickDeltas(other, delta));
  }
  for (const { symbol, added, first, last } of bySymbol.values()) {
    db.run(
      `insert into symbols (symbol, first_seen, last_seen, first_tick, last_tick, ticks) values (?1, ?5, ?5, ?3, ?4, ?2)
       on conflict do update set ticks = ticks + excluded.ticks,
         first_tick = min(coalesce(first_tick, excluded.first_tick), excluded.first_tick),
         last_tick = max(coalesce(last_tick, excluded.last_tick), excluded.last_tick)`,
      symbol,
      added,
      first,
      last,
      nowMs,
    );
  }
}

const joinTickDeltas = (a: TickDelta, b: TickDelta): TickDelta => ({
  symbol: a.symbol,
  added: a.added + b.added,
  first: Math.min(a.first, b.first),
  last: Math.max(a.last, b.last),
});

/** The counted published ticks of a symbol. Times are epoch milliseconds, null if it has none. */
export interface TickCount {
  readonly symbol: string;
  readonly ticks: number;
  readonly firstTick: number | null;
  readonly lastTick: number | null;
}

/** Replaces the stored tick counts with counted ones. */
export function setTickCounts(db: Database, counts: readonly TickCount[], nowMs: number): void {
  for (const { symbol, ticks, firstTick, lastTick } of counts) {
    db.run(
      `insert into symbols (symbol, first_seen, last_seen, first_tick, last_tick, ticks) values (?1, ?5, ?5, ?3, ?4, ?2)
       on conflict do update set ticks = excluded.ticks, first_tick = excluded.first_tick, last_tick = excluded.last_tick`,
      symbol,
      ticks,
      firstTick,
      lastTick,
      nowMs,
    );
  }
}
