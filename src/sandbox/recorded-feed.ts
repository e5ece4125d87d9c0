import { findFirstAtOrAfter } from '../base/binary-search.ts';
import { UsageError } from '../base/errors.ts';
import { emptyTicks } from '../base/ticks.ts';
import { minuteMs } from '../base/window.ts';
import type { Feed, SandboxMarket } from './feed.ts';

/** A recording in memory: the ticks of `symbols[i]` are the rows [offsets[i], offsets[i + 1]). */
export interface Recording {
  readonly symbols: readonly string[];
  readonly offsets: Uint32Array | readonly number[];
  /** Epoch milliseconds, strictly ascending within a symbol. */
  readonly t: Float64Array;
  readonly p: Float64Array;
  /** Rows with `symbol` and, if known, `question`, `category`, `n_snaps`, `resolved_yes` (1, 0 or null). */
  readonly markets: readonly unknown[];
}

interface RecordedFeedOptions {
  /**
   * `own` leaves the times unchanged; `end-now` shifts them by whole minutes so that the last tick is at `nowMs` or just before.
   */
  readonly shift: 'own' | 'end-now';
  readonly nowMs: number;
}

/**
 * A feed that replays a recording. Every symbol is known and listed at any time; a resolved one becomes inactive at
 * its last tick.
 * @throws UsageError if the columns do not match
 */
export function createRecordedFeed(recording: Recording, options: RecordedFeedOptions): Feed {
  const { symbols, offsets, t, p } = recording;
  if (offsets.length !== symbols.length + 1 || offsets.at(-1) !== t.length || p.length !== t.length) {
    throw new UsageError('recording: symbols, offsets, t and p do not match');
  }
  const shiftMs = options.shift === 'own' ? 0 : floorToMinutes(options.nowMs - findMax(t));
  const index = new Map(symbols.map((symbol, i) => [symbol, i]));
  const firstOf = (i: number) => t[offsets[i]!]! + shiftMs;
  const lastOf = (i: number) => t[offsets[i + 1]! - 1]! + shiftMs;
  const described = new Map(recording.markets.map((row) => [String(getField(row, 'symbol')), row]));
  return {
    symbols: () => [...symbols],
    getLifetime(symbol) {
      const i = index.get(symbol);
      if (i === undefined) return undefined;
      return offsets[i] === offsets[i + 1] ? { from: 0, to: 0 } : { from: firstOf(i), to: lastOf(i) + 1 };
    },
    ticks(symbol, window) {
      const i = index.get(symbol);
      if (i === undefined) return emptyTicks;
      const first = findFirstAtOrAfter(t, window.from - shiftMs, offsets[i]!, offsets[i + 1]!);
      const end = findFirstAtOrAfter(t, window.to - shiftMs, first, offsets[i + 1]!);
      const times = t.subarray(first, end);
      return { t: shiftMs === 0 ? times : times.map((at) => at + shiftMs), p: p.subarray(first, end) };
    },
    markets: (nowMs) =>
      symbols.map((symbol, i) => {
        const hasTicks = offsets[i]! < offsets[i + 1]!;
        const ends = hasTicks ? { firstMs: firstOf(i), lastMs: lastOf(i) } : undefined;
        return toSandboxMarket(symbol, described.get(symbol), ends, nowMs);
      }),
  };
}

function toSandboxMarket(
  symbol: string,
  row: unknown,
  ends: { readonly firstMs: number; readonly lastMs: number } | undefined,
  nowMs: number,
): SandboxMarket {
  const question = getField(row, 'question');
  const category = getField(row, 'category');
  const snapshots = toFiniteNumber(getField(row, 'n_snaps'));
  const outcome = toFiniteNumber(getField(row, 'resolved_yes'));
  const resolution = ends !== undefined && outcome !== undefined && nowMs > ends.lastMs ? ends.lastMs : undefined;
  return {
    canonical_id: symbol,
    confidence: 1,
    category: typeof category === 'string' ? category : 'uncategorised',
    is_active: resolution === undefined,
    source: 'polymarket',
    symbol,
    ...(typeof question === 'string' ? { question } : {}),
    ...(ends === undefined ? {} : { opens_at: ends.firstMs }),
    ...(resolution === undefined ? {} : { closes_at: resolution, resolved_at: resolution, outcome: outcome! }),
    ...(snapshots === undefined ? {} : { snapshots }),
  };
}

function getField(row: unknown, name: string): unknown {
  return typeof row === 'object' && row !== null ? (row as Record<string, unknown>)[name] : undefined;
}

/** Converts a number of a Parquet reader, possibly a bigint. */
function toFiniteNumber(value: unknown): number | undefined {
  const number = typeof value === 'bigint' || typeof value === 'boolean' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

function findMax(t: Float64Array): number {
  return t.length === 0 ? 0 : t.reduce((max, at) => Math.max(max, at));
}

function floorToMinutes(ms: number): number {
  return Math.floor(ms / minuteMs) * minuteMs;
}
