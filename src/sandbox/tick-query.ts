import { createRandom, hashNumber, hashText } from '../core/random.ts';
import { intersect, isWithin, type Window } from '../core/window.ts';
import type { Feed } from './data-source.ts';
import type { SandboxOptions } from './options.ts';
import { readVisibleTicks } from './query-ticks.ts';
import {
  composePage,
  computeAnsweredWindow,
  computeMatchedWindow,
  computePageRowsMax,
  computeStatedMoment,
  getKeptSide,
  isUsable,
  needsWholeWindow,
} from './tick-behavior.ts';
import type { ElementKind, SandboxTickPage } from './tick-page.ts';

export interface TickQuery {
  readonly symbol: string;
  readonly from: number | undefined;
  readonly to: number | undefined;
  readonly limit: number | undefined;
}

/** Symbols with caps of their own have one of so many. */
const symbolCapsMax = 4;

/**
 * One page as the service would cut, order and repeat it.
 * @param n which tick request of the symbol it is, from 1: with the seed, all that is drawn for it
 */
export function createTickPage(
  feed: Feed,
  query: TickQuery,
  n: number,
  nowMs: number,
  options: SandboxOptions,
): SandboxTickPage {
  const { symbol } = query;
  const key = hashText(options.seed, symbol);
  const draw = createRandom(hashNumber(key ^ 0x9a6e, n));
  const to = query.to ?? nowMs;
  const window = { from: query.from ?? to - options.defaultWindowMs, to };
  const oldestMs = options.retentionMs === null ? Number.NEGATIVE_INFINITY : nowMs - options.retentionMs;
  const limit = query.limit ?? options.defaultLimit;
  const request = { window, limit, n, rank: key % symbolCapsMax, nowMs, oldestMs, draw };
  const lags = options.replicaLagsMs;
  const asOfMs = nowMs - (lags.length === 1 ? lags[0]! : lags[Math.floor(draw() * lags.length)]!);
  const visibleRows = createVisibleReader(feed, symbol, asOfMs, options);

  const matched = computeMatchedWindow(window, options);
  const inside = { from: Math.max(matched.from, oldestMs), to: Math.min(matched.to, nowMs + 1) };
  const part = {
    side: getKeptSide(n, options),
    rowsMax: needsWholeWindow(options) ? Number.POSITIVE_INFINITY : computePageRowsMax(options, limit),
  };
  const before =
    options.carryInShare === 0
      ? []
      : visibleRows({ from: Math.max(0, oldestMs), to: matched.from }, { side: 'latest', rowsMax: 1 });
  const page = composePage(before.slice(-1), visibleRows(inside, part), request, options);
  const { elements, from } = page;
  const kinds = elements.map((row): ElementKind => {
    if (row === null) return 'foreign';
    return isUsable(row, options) ? 'tick' : 'unusable';
  });
  const gaps = intersect(options.gaps, [computeAnsweredWindow(request)]);
  return {
    symbol,
    t: Float64Array.from(elements, (row) => row?.t ?? 0),
    p: Float64Array.from(elements, (row) => row?.p ?? 0),
    count: elements.length,
    from,
    to: page.to,
    generatedAt: computeStatedMoment(nowMs, options),
    ...(kinds.some((kind) => kind !== 'tick') ? { kinds } : {}),
    ...(gaps.length > 0 ? { gaps } : {}),
  };
}

interface VisibleRow {
  readonly t: number;
  readonly p: number;
}

/** Looks for visible ticks of a symbol; none lies in a gap. */
function createVisibleReader(feed: Feed, symbol: string, asOfMs: number, options: SandboxOptions) {
  return (window: Window, part: Parameters<typeof readVisibleTicks>[2]): VisibleRow[] => {
    if (window.from >= window.to) return [];
    const { gaps } = options;
    // Ticks in gaps are no part of the rows that are enough.
    const wanted = gaps.length === 0 ? part : { ...part, rowsMax: Number.POSITIVE_INFINITY };
    const { t, p } = readVisibleTicks(feed, { symbol, window, asOfMs }, wanted, options).ticks;
    const rows = Array.from(t, (time, i) => ({ t: time, p: p[i]! }));
    return rows.filter((row) => !gaps.some((gap) => isWithin(row.t, gap)));
  };
}
