import type { Clock } from '../../base/ports.ts';
import { hourMs } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import { requireKnownSymbol } from '../journal/symbol-names.ts';
import { watchManifest } from './manifest-watcher.ts';
import { openTickReader } from './read-ticks.ts';
import { openVerifiedFiles } from './verified-files.ts';

/** A tick that has appeared, or a known one whose price has changed. `t` in epoch ms. */
interface FollowedTick {
  readonly symbol: string;
  readonly t: number;
  readonly p: number;
  readonly isRevision: boolean;
}

interface FollowOptions {
  readonly symbols: readonly string[];
  /** Yields the ticks since this time first, epoch ms; null: only those that appear from now on. */
  readonly sinceMs: number | null;
  readonly clock: Clock;
  /** Ends the iteration. */
  readonly signal: AbortSignal;
}

/** Interval between two looks at the archive, in ms. */
const lookMs = 500;
/** A late tick is noticed if it is at most this much older than the latest one of its symbol, in ms. */
const lateMsMax = hourMs;
const cacheBytesMax = 64 * 1024 * 1024;
/** Ticks of one read. The rest follows with the next one. */
const ticksPerRead = 100_000;

/** What is known of a symbol: its last tick, and the prices of the ticks shortly before it. */
interface Position {
  nextMs: number;
  readonly recent: Map<number, number>;
}

/**
 * Yields the ticks of symbols as processes journal or publish them, until the signal aborts. Ticks of one look are in order of
 * time within each symbol.
 * @throws UsageError for a symbol that the archive does not know; DamageError if a file that is needed is damaged
 */
export async function* followTicks(archive: Archive, options: FollowOptions): AsyncGenerator<FollowedTick> {
  const { symbols, sinceMs, clock, signal } = options;
  const files = openVerifiedFiles(archive, cacheBytesMax);
  const readTicks = openTickReader(archive, watchManifest(archive), files, cacheBytesMax);
  const positions = new Map<string, Position>();
  const facts = symbols.map((symbol) => requireKnownSymbol(archive.state.db, symbol));
  for (const { symbol, lastTick } of facts) {
    positions.set(symbol, { nextMs: sinceMs ?? Math.max(lastTick ?? 0, clock.nowMs() - lateMsMax), recent: new Map() });
  }
  for (let isFirst = sinceMs === null; !signal.aborted; isFirst = false) {
    for (const symbol of symbols) {
      const position = positions.get(symbol)!;
      const to = clock.nowMs() + hourMs;
      let from: number | null = Math.max(sinceMs ?? 0, position.nextMs - lateMsMax);
      while (from !== null && from < to && !signal.aborted) {
        const found = await readTicks({ symbol, from, to, limit: ticksPerRead });
        if (found === null) break;
        for (const slice of found.slices)
          for (let i = slice.from; i < slice.to; i++) {
            const [t, p] = [slice.t[i]!, slice.p[i]!];
            const before = position.recent.get(t);
            if (before === p) continue;
            position.recent.set(t, p);
            position.nextMs = Math.max(position.nextMs, t);
            if (!isFirst) yield { symbol, t, p, isRevision: before !== undefined };
          }
        // A read ends early at its limit of ticks or days.
        from = found.to > from && found.to < to ? found.to : null;
      }
      for (const t of position.recent.keys()) if (t < position.nextMs - lateMsMax) position.recent.delete(t);
    }
    await clock.sleep(lookMs, signal).catch(() => {});
  }
}
