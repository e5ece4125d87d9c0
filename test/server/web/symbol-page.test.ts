import { describe, expect, test } from 'vitest';
import {
  computeDepths,
  computeSpread,
  cumulateDepth,
  toBestPrices,
} from '../../../src/server/web/client/book-depth.ts';
import { computeTables, findLonePoints } from '../../../src/server/web/client/chart-columns.ts';
import type { ChartData } from '../../../src/server/web/client/chart-data.ts';
import { clipGaps, findWindow, joinCoverage } from '../../../src/server/web/client/covered-windows.ts';
import { scaleRange } from '../../../src/server/web/client/lines.ts';
import { createReadout, formatReadout, listStops } from '../../../src/server/web/client/readout.ts';
import { formatSnippet, quoteForPython } from '../../../src/server/web/client/snippets.ts';
import { formatEnd, listMarketEvents, nameClose, nameOpening } from '../../../src/server/web/client/timeline.ts';
import { formatHash, parseEnteredTime, parseView } from '../../../src/server/web/client/view.ts';
import { hostile } from './symbol-lake.ts';

const dayMs = 86_400_000;
const day0 = Date.UTC(2026, 5, 1);
const minuteMs = 60_000;

describe('the URL of a symbol', () => {
  const base = { symbol: 'A', range: null, chart: 'price', day: null } as const;

  test('keeps every state, and omits what is the default', () => {
    const view = { ...base, span: '6h', scale: 'unit', compare: 'B & <C>', tab: 'book', code: 'r' } as const;
    expect(parseView(formatHash(view))).toEqual(view);
    expect(formatHash(base)).toBe('#symbol=A');
  });

  test.each(['span=2h', 'scale=log', 'compare=', `compare=${'x'.repeat(1001)}`, 'tab=x', 'code=perl'])(
    'ignores %s',
    (text) => expect(parseView(`#symbol=A&${text}`)).toEqual(base),
  );

  test('times are entered as the page shows them, or as ISO 8601', () => {
    const noon = day0 + 720 * minuteMs;
    expect(['2026-06-01 12:00', ' 2026-06-01T12:00:00Z ', '2026-06-01 12:00:00.000'].map(parseEnteredTime)).toEqual([
      noon,
      noon,
      noon,
    ]);
    expect(parseEnteredTime('2026-06-01')).toBe(day0);
    expect(['06/01/2026', '2026-06-01 25:00', 'now', ''].map(parseEnteredTime)).toEqual([null, null, null, null]);
  });
});

describe('coverage', () => {
  const row = (from: number, to: number, evidence: string) => ({
    t_from: from,
    t_to: to,
    origin: 'poll',
    fetched_at: 0,
    evidence,
  });

  test('joins adjacent windows of the same evidence, within the range', () => {
    const rows = [row(20, 30, 'stated'), row(0, 20, 'stated'), row(30, 40, 'inferred'), row(50, 90, 'declared')];
    const windows = joinCoverage(rows, { from: 5, to: 60 });
    expect(windows.map(({ from, to, evidence }) => [from, to, evidence])).toEqual([
      [5, 30, 'stated'],
      [30, 40, 'inferred'],
      [50, 60, 'declared'],
    ]);
    expect(findWindow(windows, 29)?.evidence).toBe('stated');
    expect([findWindow(windows, 45), findWindow(windows, 60), findWindow([], 1)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('gaps with other reasons stay apart, and do not overlap', () => {
    const gaps = [
      { from: 0, to: 20, reason: 'failed' },
      { from: 10, to: 30, reason: 'lost', ticks: 3 },
      { from: 30, to: 40, reason: 'lost', ticks: 3 },
    ];
    expect(clipGaps(gaps, { from: 0, to: 100 })).toEqual([
      { from: 0, to: 20, reason: 'failed' },
      { from: 20, to: 40, reason: 'lost', ticks: 3 },
    ]);
  });
});

describe('the readout', () => {
  const range = { from: day0, to: day0 + 60 * minuteMs };
  const gap = { from: day0 + 20 * minuteMs, to: day0 + 30 * minuteMs, reason: 'failed', detail: '503' };
  const coverage = [{ from: day0, to: gap.from, evidence: 'confirmed', origin: 'poll', grainMs: null }];
  const ticks = [
    { t: day0 + 5 * minuteMs, p: 0.25 },
    { t: day0 + 40 * minuteMs, p: 0.5 },
  ];
  const of = (symbol: string) => ({ symbol, ticks, gaps: [gap], until: range.to });
  const loaded = { kind: 'ticks', range, coverage, symbols: [of('A')] } satisfies ChartData;
  const read = (data: ChartData, minutes: number) => formatReadout(createReadout(data)(day0 + minutes * minuteMs));

  test('shows the price in force, and none where it is unknown', () => {
    expect(read(loaded, 1)).toBe('2026-06-01 00:01 UTC · Price – · Covered confirmed, by poll');
    expect(read(loaded, 5)).toBe('2026-06-01 00:05 UTC · Price 0.25 · Covered confirmed, by poll');
    expect(read(loaded, 10)).toContain('Price 0.25 · Since 2026-06-01 00:05');
    expect(read(loaded, 25)).toBe('2026-06-01 00:25 UTC · Gap: failed (503)');
    // After a gap, the price is unknown until the next tick.
    expect(read(loaded, 35)).toBe('2026-06-01 00:35 UTC · Price –');
    expect(read(loaded, 40)).toContain('Price 0.5');
    expect(read({ ...loaded, symbols: [of('A'), of('B')] }, 40)).toContain('A 0.5 · B 0.5');
    expect(listStops(loaded)).toEqual(ticks.map(({ t }) => t));
  });

  test('shows a candle with its four prices', () => {
    const candle = { t: day0, open: 0.1, high: 0.4, low: 0.05, close: 0.3, ticks: 7, covered: 1 };
    const interval = { name: '5m', ms: 5 * minuteMs } as const;
    const symbols = [{ symbol: 'A', candles: [candle], gaps: [gap] }];
    const candles = { kind: 'candles', range, coverage: null, interval, symbols } satisfies ChartData;
    expect(read(candles, 3)).toBe('2026-06-01 00:00, 5m UTC · Open 0.1 · High 0.4 · Low 0.05 · Close 0.3 · 7 ticks');
    expect(read(candles, 7)).toBe('2026-06-01 00:05, 5m UTC · No ticks');
    expect(computeTables(candles, 'price')[0]!.columns.map(({ role }) => role)).toEqual(['edge', 'edge', 'line']);
  });

  test('a lone point is one without a neighbor; times of another symbol are none', () => {
    expect(findLonePoints([1, null, 2, undefined, 3, null, undefined, 4])).toEqual([0, 7]);
  });

  test('zooms about the pointer', () => {
    const bounds = { from: 0, to: 100_000 };
    expect(scaleRange({ from: 20_000, to: 60_000 }, 0.5, bounds, 30_000)).toEqual({ from: 25_000, to: 45_000 });
  });
});

describe('the order book', () => {
  const level = (price: number, quantity: number) => ({ price, quantity });
  const book = { t: 1, bids: [level(0.4, 10), level(0.3, 5)], asks: [level(0.5, 2), level(0.7, 4)] };

  test('cumulates both sides from the best price outwards', () => {
    expect(cumulateDepth(book)).toEqual({
      x: [0.3, 0.4, 0.5, 0.7],
      bids: [15, 10, null, null],
      asks: [null, null, 2, 6],
    });
    expect(cumulateDepth({ bids: [], asks: [] })).toEqual({ x: [], bids: [], asks: [] });
    expect(computeDepths([book])).toEqual([{ t: 1, bids: 15, asks: 6 }]);
  });

  test('has no spread without one of its sides, and no rounding error', () => {
    expect(toBestPrices([book, { ...book, asks: [] }]).map(computeSpread)).toEqual([0.1, null]);
    expect(computeSpread({ t: 1, bid: 0.3, ask: 0.9 })).toBe(0.6);
  });
});

describe('the history of a market', () => {
  const state = { category: 'c', is_active: true, closes_at: 500, resolved_at: null, outcome: null };
  const market = {
    ...{ symbol: 'A', canonical_id: 'a', source: 'v', question: null, confidence: null, tick_size: null, ticks: 2 },
    ...{ event: null, expected_end: null, rules_sha256: null, opens_at: 50, first_tick: 120, last_tick: 480 },
    ...{ ...state, is_active: false, closes_at: 600, resolved_at: 650, outcome: 1, outcome_source: 'derived' },
    ...{ first_seen: 100, last_seen: 900, states: 3 },
    history: [
      { ...state, first_seen: 100, last_seen: 200 },
      { ...state, closes_at: 600, first_seen: 300, last_seen: 600 },
      { ...state, is_active: false, closes_at: 600, resolved_at: 650, outcome: 1, first_seen: 700, last_seen: 900 },
    ],
  };

  test('has what was stated, and what each poll showed first', () => {
    expect(listMarketEvents(market, 1000).map(({ t, what }) => [t, what])).toEqual([
      [50, 'Opened'],
      [100, 'Listed for the first time'],
      [120, 'First tick'],
      [300, 'Close moved to 1970-01-01 00:00:00.600'],
      [480, 'Last published tick'],
      [600, 'Closed'],
      [650, 'Resolved yes, derived'],
      [700, 'No longer active'],
      [700, 'Resolution known: 1970-01-01 00:00:00.650'],
      [700, 'Outcome known: yes'],
      [900, 'Listed for the last time, so far'],
    ]);
  });

  test.each([
    [40, null, 'Opens', 'Closes', 'ends 1970-01-02'],
    [60, true, 'Opened', 'Closes', 'ends 1970-01-02'],
    // It closed before its planned close.
    [60, false, 'Opened', 'Planned close', ''],
    [dayMs + 1, true, 'Opened', 'Closed', 'ended 1970-01-02'],
  ])('at %i, active %j: %s, %s, %j', (nowMs, isActive, opening, close, end) => {
    expect(nameOpening(50, nowMs)).toBe(opening);
    expect(nameClose(dayMs, isActive, nowMs)).toBe(close);
    const state = isActive === false ? 'closed' : 'active';
    expect(formatEnd({ state, ends_at: dayMs, resolved_at: null }, nowMs)).toBe(end);
  });

  test('says how many changes are not in it', () => {
    const [first] = listMarketEvents({ ...market, states: 60 }, 1000).filter(({ what }) => what.includes('earlier'));
    expect(first).toEqual({ t: 100, what: '57 earlier changes', from: 'poll' });
  });
});

describe('code', () => {
  const target = { origin: 'http://127.0.0.1:8080', isKeyRequired: true };
  const selection = { name: 'ticks', symbols: ['A'], from: day0, to: day0 + 1 };

  test('names the key only if it is required', () => {
    for (const language of ['duckdb', 'polars', 'pandas', 'r', 'curl'] as const) {
      expect(formatSnippet(language, selection, target)).toContain('ODDSLAKE_KEY');
      const open = formatSnippet(language, selection, { ...target, isKeyRequired: false });
      expect(open).not.toMatch(/ODDSLAKE_KEY|Authorization|import .*os/);
    }
  });

  test.each(hostile)('has %j as data only', (symbol) => {
    const of = { ...selection, symbols: [symbol] };
    const benign = formatSnippet('curl', selection, target);
    const encoded = formatSnippet('curl', of, target);
    // Outside of the quoted URL, nothing differs.
    expect(encoded.replace(/'[^']*'/g, '')).toBe(benign.replace(/'[^']*'/g, ''));
    for (const language of ['r', 'curl'] as const)
      expect(formatSnippet(language, of, target)).not.toMatch(/[^\x20-\x7e\n]/);
    const literal = quoteForPython(symbol);
    expect(literal).toMatch(/^"(?:[^"\\\p{C}]|\\.)*"$/u);
    expect(JSON.parse(literal)).toBe(symbol);
  });
});
