import { LRUCache } from 'lru-cache';
import { type Archive, requirePublishedManifest } from '../archive/open-archive.ts';
import { findFirstAtOrAfter } from '../core/binary-search.ts';
import { splitAtLostWindows } from '../core/data-loss.ts';
import { DamageError, exitCodes, OddslakeError } from '../core/errors.ts';
import { emptyPart, mergePart, type PartColumns } from '../core/merge.ts';
import { emptyTicks, type TickColumns } from '../core/tick.ts';
import { dayMs, subtract, type Window } from '../core/window.ts';
import { openDayPrecedence } from '../state/precedence.ts';
import { readSymbolDayTicks } from '../state/symbol-ticks.ts';
import type { VerifiedFiles } from './files/verified-files.ts';
import type { ManifestWatcher } from './manifest-watcher.ts';
import { openSymbolSnapshots, SupersededError, type SymbolDay, type SymbolSnapshot } from './symbol-snapshot.ts';
import { openSymbolTickCache } from './symbol-tick-cache.ts';

export interface TickRangeQuery {
  readonly symbol: string;
  /** Epoch milliseconds; null: the latest ticks before `to`. */
  readonly from: number | null;
  /** Excluded, epoch milliseconds. */
  readonly to: number;
  /** At least 1. */
  readonly limit: number;
}

/** Ticks `from` to `to` of columns that stay as they are; `key` tells them, and the symbol's day, from all others. */
export interface TickSlice extends TickColumns {
  readonly key: string;
  readonly from: number;
  readonly to: number;
}

/** The window that was answered, epoch milliseconds, with all ticks in it, ascending. */
export interface TickRangeResult extends Window {
  readonly slices: readonly TickSlice[];
  readonly count: number;
  /** What of the window nobody has covered; the last one spans all the rest where there are more than `gapsMax`. */
  readonly gaps: readonly TickGap[];
}

export interface TickGap extends Window {
  /** `lost`: its ticks were published once and were lost. Absent where nobody ever covered it. */
  readonly reason?: 'lost';
}

/** Days of one answer: what it costs has a bound, however few ticks a day has. */
export const daysMax = 366;

/** Gaps of one answer. */
export const gapsMax = 1000;

/** How often a read begins again because a publish came between. */
const attemptsMax = 20;

/**
 * Reads the ticks of single symbols: what is published joined with what is journaled, as a publish at that moment would
 * leave it, whatever another process publishes meanwhile. Null for an unknown symbol.
 * @throws DamageError where a file that is needed differs from the manifest
 */
export type ReadTicks = (asked: TickRangeQuery) => Promise<TickRangeResult | null>;

/** @param bytesMax what is kept in memory of decoded ticks; at least 0 */
export function openTickReader(
  archive: Archive,
  current: ManifestWatcher,
  files: VerifiedFiles,
  bytesMax: number,
): ReadTicks {
  const { state } = archive;
  const stateOf = openSymbolSnapshots(archive, current);
  const parts = openSymbolTickCache(files, bytesMax / 2);
  const merged = new LRUCache<string, TickColumns>({
    maxSize: Math.max(1, Math.floor(bytesMax / 2)),
    sizeCalculation: ({ t }) => 16 * t.length + 1,
  });

  function dayOf(
    symbol: string,
    { generation, end }: SymbolSnapshot,
    { day, file, journaled }: SymbolDay,
  ): KeyedColumns {
    if (journaled === undefined) return { key: `${file!.sha256} ${symbol}`, ...published(symbol, generation, file) };
    // Of one generation, the same records give the same ticks.
    const key = `${generation} ${journaled} ${day} ${symbol}`;
    const held = merged.get(key);
    if (held !== undefined) return { key, ...held };
    const old = published(symbol, generation, file);
    const columns = state.db.snapshot(() => {
      if (state.generation() !== generation) throw new SupersededError();
      const chunks = readSymbolDayTicks(state.db, symbol, day, end);
      return mergePart(toPartColumns(symbol, old), chunks, openDayPrecedence(state.db, day)).columns;
    });
    const ticks = { t: columns.t, p: columns.p };
    merged.set(key, ticks);
    return { key, ...ticks };
  }

  function published(symbol: string, generation: number, file: SymbolDay['file']): TickColumns {
    if (file === undefined) return emptyTicks;
    try {
      return parts.readTicks(file, symbol);
    } catch (error) {
      // A file that differs was replaced, or is damaged: the generation tells which, being written before any file is.
      if (error instanceof DamageError && state.generation() !== generation) throw new SupersededError();
      throw error;
    }
  }

  async function walk(asked: TickRangeQuery, known: SymbolSnapshot): Promise<TickRangeResult> {
    const { symbol, to, limit } = asked;
    const latest = asked.from === null;
    const from = asked.from ?? startOf(symbol, known, to);
    const days = known.days.filter(({ day }) => day + dayMs > from && day < to);
    if (latest) days.reverse();
    const slices: TickSlice[] = [];
    let count = 0;
    let window: Window = { from, to: Math.max(from, to) };
    for (const [i, day] of days.entries()) {
      if (i === daysMax) {
        window = latest ? { ...window, from: day.day + dayMs } : { ...window, to: day.day };
        break;
      }
      // Others get their turn between days, most of which are read from disk where there are many.
      if (i % 4 === 3) await new Promise((resolve) => setImmediate(resolve));
      const columns = dayOf(symbol, known, day);
      const slice = sliceColumns(columns, window);
      if (slice.from === slice.to) continue;
      const over = count + slice.to - slice.from - limit;
      if (over > 0) {
        // One more than asked for is there: the window ends with the last that is given.
        const kept = latest ? { ...slice, from: slice.from + over } : { ...slice, to: slice.to - over };
        const edge = kept.from < kept.to ? kept : slices.at(-1)!;
        window = latest ? { ...window, from: edge.t[edge.from]! } : { ...window, to: edge.t[edge.to - 1]! + 1 };
        if (kept.from < kept.to) slices.push(kept);
        count = limit;
        break;
      }
      slices.push(slice);
      count += slice.to - slice.from;
    }
    if (latest) slices.reverse();
    return { ...window, slices, count, gaps: findGaps(window, known) };
  }

  /** The first moment of which anything is known, or `to` where it is not before that. */
  function startOf(symbol: string, known: SymbolSnapshot, to: number): number {
    const first = known.days.find(({ journaled }) => journaled !== undefined);
    const journaled = first === undefined ? undefined : dayOf(symbol, known, first).t[0];
    const starts = [known.covered[0]?.from, known.firstPublished ?? undefined, journaled];
    return Math.min(to, ...starts.filter((start) => start !== undefined));
  }

  return async (asked) => {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      try {
        const known = stateOf(asked.symbol);
        return known === null ? null : await walk(asked, known);
      } catch (error) {
        if (!(error instanceof SupersededError)) throw error;
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    requirePublishedManifest(archive);
    throw new OddslakeError(
      exitCodes.busy,
      `The archive was published anew ${attemptsMax} times while ${asked.symbol} was read. Try again later.`,
    );
  };
}

interface KeyedColumns extends TickColumns {
  readonly key: string;
}

const toPartColumns = (symbol: string, { t, p }: TickColumns): PartColumns =>
  t.length === 0 ? emptyPart : { symbols: [symbol], offsets: Float64Array.of(0, t.length), t, p };

const sliceColumns = (columns: KeyedColumns, { from, to }: Window): TickSlice => ({
  ...columns,
  from: findFirstAtOrAfter(columns.t, from),
  to: findFirstAtOrAfter(columns.t, to),
});

/** At most `gapsMax`: what is too much joins the last one, so that nothing uncovered seems covered. */
function findGaps(window: Window, { covered, lost }: SymbolSnapshot): TickGap[] {
  const gaps = splitAtLostWindows(subtract([window], covered), lost).map(({ from, to, loss }): TickGap => {
    return { from, to, ...(loss !== null && { reason: 'lost' }) };
  });
  if (gaps.length <= gapsMax) return gaps;
  return [...gaps.slice(0, gapsMax - 1), { from: gaps[gapsMax - 1]!.from, to: gaps.at(-1)!.to }];
}
