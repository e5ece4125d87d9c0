import { describe, expect, test } from 'vitest';
import { runSeries } from '../../../src/backtest/engine/run-series.ts';
import type { SymbolSeries } from '../../../src/backtest/engine/symbol-series.ts';
import type { InvalidBacktestError } from '../../../src/backtest/resolve-strategy.ts';
import type { Strategy } from '../../../src/contract/strategy-language.ts';
import { answer, append, publishNow } from '../../archive/scratch.ts';
import { bound, builtIn, curious } from './strategies.ts';
import { createArchive, day0, dayMs, hourMs, run, seriesOf, symbols } from './test-archive.ts';

const hour = (n: number): number => day0 + n * hourMs;

const strategies: readonly (readonly [name: string, strategy: Strategy])[] = [
  ['buy_and_hold', builtIn('buy_and_hold')],
  ['threshold', builtIn('threshold')],
  ['mean_reversion', bound('mean_reversion', { window_ms: 2 * hourMs, enter_beyond: 1.5 })],
  ['momentum', bound('momentum', { move_beyond: 0.05 })],
  ['favourite_longshot', builtIn('favourite_longshot')],
  ['cross_venue_spread', builtIn('cross_venue_spread')],
  ['curious', curious],
];

/** The same run on the values of which the archive was created. */
function played(strategy: Strategy, span: { from: number; to: number }, all: readonly SymbolSeries[] = seriesOf()) {
  return runSeries({ strategies: [strategy], spans: [span], isDetailed: true }, all);
}

describe('a backtest over an archive', () => {
  test('reads all data of every symbol and makes the trades of the engine', async () => {
    const archive = await createArchive();
    const spans = [
      { from: day0, to: day0 + 3 * dayMs },
      { from: hour(20) + 12_345, to: hour(53) },
    ];
    for (const [i, [name, strategy]] of strategies.entries()) {
      const span = spans[i % 2]!;
      const result = await run(archive, span, strategy, { threads: 2 });
      const expected = played(strategy, span);
      expect(result.trades.items, name).toEqual(expected.trades);
      const tally = expected.totals[0]![0]!;
      expect(result.summary, name).toMatchObject({
        trades: tally.trades,
        symbols: 20,
        total_pnl: expect.closeTo(tally.pnl, 9),
        fees: expect.closeTo(tally.fees, 9),
      });
      expect(result.trades.count, name).toBeGreaterThan(10);
      const rows = expected.symbols.filter(({ trades }) => trades > 0);
      expect(result.symbols.items.toSorted(bySymbol), name).toEqual(rows.toSorted(bySymbol));
      expect(result.calibration.map(({ ticks }) => ticks)).toEqual([...expected.calibration.ticks]);
    }
  });

  test('runs from the first tick to the last tick or settlement by default', async () => {
    const { from, to, summary } = await run(await createArchive(), {}, builtIn('buy_and_hold'));
    const all = seriesOf();
    expect(from).toBe(Math.min(...all.map(({ t }) => t[0]!)));
    expect(to).toBe(Math.max(...all.map(({ t, settlement }) => Math.max(t.at(-1)!, settlement?.at ?? 0))) + 1);
    expect(summary.ticks).toBe(all.reduce((n, { t }) => n + t.length, 0));
  });

  test('simulates only selected symbols, and reads their other venues', async () => {
    const archive = await createArchive();
    const strategy = builtIn('cross_venue_spread');
    const some = [symbols[3]!, symbols[8]!, symbols[17]!];
    const span = { from: day0, to: day0 + 3 * dayMs };
    const result = await run(archive, { ...span, symbols: some }, strategy);
    const expected = played(
      strategy,
      span,
      seriesOf().filter(({ symbol }) => some.includes(symbol)),
    );
    expect(result.trades.items).toEqual(expected.trades);
    expect(new Set(result.trades.items.map(({ symbol }) => symbol))).toEqual(new Set(some.slice(0, 2)));
    expect(result.summary.symbols).toBe(3);
    const filtered = await run(archive, { ...span, filter: { sources: ['kalshi'] } }, strategy);
    const kalshi = seriesOf().filter((_, i) => i % 2 === 0);
    expect(filtered.trades.items).toEqual(played(strategy, span, kalshi).trades);
    const both = await run(archive, { ...span, filter: { sources: ['kalshi'] }, symbols: some }, strategy);
    expect(both.summary.symbols).toBe(1);
  });

  test('reports faults by field', async () => {
    const archive = await createArchive();
    const refused = async (json: object) => {
      const error = await run(archive, json, builtIn('threshold')).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ name: 'InvalidBacktestError', exitCode: 2 });
      return (error as { faults: readonly { name: string; reason: string }[] }).faults;
    };
    expect(await refused({ symbols: ['K-0', 'nobody', 'none'] })).toEqual([
      { name: 'symbols', reason: 'includes symbols unknown to the archive: nobody and 1 more' },
    ]);
    expect(await refused({ filter: { categories: ['weather'] } })).toEqual([
      { name: 'filter', reason: 'matches no symbol with ticks' },
    ]);
    expect((await refused({ filter: { categories: ['weather'] }, from: 1, to: 2 }))[0]!.name).toBe('filter');
    expect((await refused({ from: day0 + 90 * dayMs }))[0]!.name).toBe('from');
    expect((await refused({ parameters: { luck: 1 } }))[0]!.name).toBe('parameters.luck');
    expect((await refused({ parameters: { buy_below: 0.1 }, grid: { buy_below: [0.2] } }))[0]).toEqual({
      name: 'parameters.buy_below',
      reason: 'is also in the grid',
    });
    expect((await refused({ grid: { luck: [1] } }))[0]!.name).toBe('grid.luck');
  });

  test('clips the window to the known time', async () => {
    const archive = await createArchive();
    const publishedAt = archive.readManifest().created_at;
    const wide = await run(archive, { from: 0, to: Date.UTC(2199, 0, 1) }, builtIn('threshold'));
    expect(wide.from).toBe(Math.min(...symbols.map((_, i) => firstTick(i)), hour(1)));
    expect(wide.to).toBe(Math.max(publishedAt, hour(72)));
    expect(wide.equity.t.length).toBeLessThanOrEqual(1001);
    expect(wide.summary.total_pnl).toBe((await run(archive, {}, builtIn('threshold'))).summary.total_pnl);
  });

  test('rejects a grid whose curves do not fit in memory', async () => {
    const archive = await createArchive();
    const values = (n: number) => Array.from({ length: n }, (_, i) => i / n);
    const refused = async (grid: object, strategy: Strategy, span = {}) =>
      ((await run(archive, { grid, ...span }, strategy).catch((thrown: unknown) => thrown)) as InvalidBacktestError)
        .faults;
    const nowhere = { from: 0, to: day0 - dayMs };
    expect(await refused({ buy_below: values(500) }, builtIn('threshold'), nowhere)).toEqual([
      {
        name: 'grid',
        reason: expect.stringMatching(/^has 500 points, too many for a window with \d+ samples: use at most \d+/),
      },
    ]);
  });

  test('a window without ticks has no trades and null objectives', async () => {
    const span = { from: day0 - 5 * dayMs, to: day0 - dayMs };
    const result = await run(await createArchive(), { ...span, objective: 'avg_pnl' }, builtIn('buy_and_hold'));
    expect(result).toMatchObject({ value: null, summary: { symbols: 20, symbols_traded: 0, ticks: 0, trades: 0 } });
    expect(result.coverage).toEqual({ lifetime_ms: 0, gap_ms: 0, gap_share: null });
  });

  test('returns the uncovered share of symbol lifetimes', async () => {
    const span = { from: hour(23), to: hour(48) };
    const { coverage } = await run(await createArchive(), span, builtIn('buy_and_hold'));
    // Each of twenty symbols is covered except for one and a half hours, which may end after the window.
    const lifetime = 20 * 25 * hourMs - symbols.reduce((sum, _, i) => sum + Math.max(0, firstTick(i) - span.from), 0);
    const gap = symbols.reduce((sum, _, i) => sum + Math.min(1.5 * hourMs, hour(48) - hour(24 + i)), 0);
    expect(coverage).toEqual({ lifetime_ms: lifetime, gap_ms: gap, gap_share: gap / lifetime });
  });
});

const firstTick = (i: number): number => seriesOf()[i]!.t[0]!;
const bySymbol = (a: { symbol: string }, b: { symbol: string }): number => (a.symbol < b.symbol ? -1 : 1);

describe('a backtest over an archive', () => {
  test('gives the same bytes with any number of threads', async () => {
    const archive = await createArchive();
    const strategies = { cross_venue_spread: builtIn('cross_venue_spread'), curious };
    for (const [name, strategy] of Object.entries(strategies)) {
      const bytes = new Set<string>();
      for (const threads of name === 'curious' ? [1, 1, 2, 3] : [1, 3])
        bytes.add(JSON.stringify(await run(archive, {}, strategy, { threads })));
      expect(bytes.size, name).toBe(1);
    }
  });

  test('reads one generation during publishes', async () => {
    const archive = await createArchive();
    const before = await run(archive, {}, curious, { threads: 2 });
    const [symbol] = symbols;
    let published: Promise<unknown> | undefined;
    const progress = (): void => {
      if (published !== undefined) return;
      append(archive, answer(symbol!, [[day0 + hourMs + 1, 0.99]]));
      published = publishNow(archive);
    };
    const during = await run(archive, {}, curious, { threads: 2, progress });
    await published;
    expect(JSON.stringify(during)).toBe(JSON.stringify(before));
    const after = await run(archive, {}, curious);
    expect(after.archive.generation).toBe(before.archive.generation + 1);
    expect(after.summary.ticks).toBe(before.summary.ticks + 1);
  });
});
