import fc from 'fast-check';
import { expect, test } from 'vitest';
import { simulate } from '../../src/backtest/engine/simulate.ts';
import type { SymbolSeries, Venue } from '../../src/backtest/engine/symbol-series.ts';
import { intersect, union } from '../../src/base/window.ts';
import type { Strategy } from '../../src/contract/strategy-language.ts';
import type { Trade } from '../../src/contract/trade-fields.ts';
import { tradingStrategy } from '../contract/strategy-values.ts';
import { checkProperty } from '../harness/properties.ts';
import { span, symbol } from './arbitrary-series.ts';
import { listBooks, plainTrades } from './plain-engine.ts';
import { strategyOf } from './series.ts';

const numRuns = Number(process.env.RUNS ?? 300);

const numbers = ['contracts', 'entry_price', 'exit_price', 'entry_fees', 'exit_fees', 'pnl'] as const;

function expectSame(real: readonly Trade[], plain: readonly Trade[]): void {
  const without = (trade: Trade) => ({ ...trade, ...Object.fromEntries(numbers.map((name) => [name, 0])) });
  expect(real.map(without)).toEqual(plain.map(without));
  for (const [i, trade] of real.entries())
    for (const name of numbers)
      expect(Math.abs(trade[name] - plain[i]![name]), name).toBeLessThan(1e-9 * (1 + Math.abs(trade[name])));
}

let played = 0;

test('makes the same trades as a plain engine without look-ahead', () => {
  checkProperty([symbol, tradingStrategy, span], numRuns, (series, json, window) => {
    const strategy = strategyOf(json);
    const trades = simulate(series, strategy, window);
    played += trades.length;
    expectSame(trades, plainTrades(series, strategy, window));
  });
  // The test would be void without trades.
  expect(played).toBeGreaterThan(numRuns / 2);
});

/** Entries and exits filled before a time, with their decisions. */
function doneBefore(trades: readonly Trade[], moment: number) {
  const before = trades.filter(({ filled_at }) => filled_at < moment);
  const entries = before.map(({ rule, side, decided_at, filled_at, price, entry_price }) =>
    JSON.stringify({ rule, side, decided_at, filled_at, price, entry_price }),
  );
  const exits = before
    .filter(({ exit_reason, exited_at }) => exit_reason === 'sold' && exited_at < moment)
    .map(({ rule, contracts, exit_decided_at, exited_at, exit_price, exit_fees }) =>
      JSON.stringify({ rule, contracts, exit_decided_at, exited_at, exit_price, exit_fees }),
    );
  return { entries: [...new Set(entries)], exits };
}

/**
 * The decisions of the first fills after a time: per rule, an entry and an exit of the position held then. An order pending at
 * that time must be the first to be filled.
 */
function filledNext(trades: readonly Trade[], moment: number): Map<string, number> {
  const first = new Map<string, [filled: number, decided: number]>();
  const note = (what: string, filled: number, decided: number | null): void => {
    if (decided !== null && filled >= moment && filled < (first.get(what)?.[0] ?? Number.POSITIVE_INFINITY))
      first.set(what, [filled, decided]);
  };
  for (const { rule, decided_at, filled_at, exit_decided_at, exited_at } of trades) {
    note(`${rule} enters`, filled_at, decided_at);
    if (filled_at < moment) note(`${rule} leaves`, exited_at, exit_decided_at);
  }
  return new Map([...first].map(([what, [, decided]]) => [what, decided]));
}

/** The same past with a different future. */
function spliced(past: SymbolSeries, future: SymbolSeries, moment: number): SymbolSeries {
  const join = (a: Pick<SymbolSeries, 't' | 'p'>, b: Pick<SymbolSeries, 't' | 'p'>) => {
    const rows = (one: typeof a, wanted: (t: number) => boolean) =>
      [...one.t].flatMap((t, i) => (wanted(t) ? [[t, one.p[i]!] as const] : []));
    const all = [...rows(a, (t) => t < moment), ...rows(b, (t) => t >= moment)];
    return { t: Float64Array.from(all, ([t]) => t), p: Float64Array.from(all, ([, p]) => p) };
  };
  const none: Venue = { t: new Float64Array(0), p: new Float64Array(0), sharedWindows: [] };
  const known = (a: Venue, b: Venue) =>
    union([
      ...intersect(a.sharedWindows, [{ from: 0, to: moment }]),
      ...intersect(b.sharedWindows, [{ from: moment, to: Number.POSITIVE_INFINITY }]),
    ]);
  return {
    symbol: past.symbol,
    ...join(past, future),
    states: [...past.states.filter(({ from }) => from < moment), ...future.states.filter(({ from }) => from >= moment)],
    books: [
      ...listBooks(past.books).filter(({ t }) => t < moment),
      ...listBooks(future.books).filter(({ t }) => t >= moment),
    ],
    quotes: [
      ...listBooks(past.quotes).filter(({ t }) => t < moment),
      ...listBooks(future.quotes).filter(({ t }) => t >= moment),
    ],
    // Earlier settlements belong to the past.
    settlement: past.settlement !== null && past.settlement.at < moment ? past.settlement : laterOf(future, moment),
    otherVenues: past.otherVenues.map((other, i) => {
      const then = future.otherVenues[i] ?? none;
      return { ...join(other, then), sharedWindows: known(other, then) };
    }),
  };
}

const laterOf = ({ settlement }: SymbolSeries, moment: number): SymbolSeries['settlement'] =>
  settlement === null ? null : { ...settlement, at: Math.max(settlement.at, moment) };

/** Whether an order of less than one whole contract is placed depends on the price of its fill, which is later. */
const withoutDroppedOrders = (strategy: Strategy): Strategy =>
  strategy.rules.some(({ size }) => 'dollars' in size && (size.dollars as number) < 1)
    ? { ...strategy, whole_contracts: false }
    : strategy;

test('decisions and fills do not depend on later data', () => {
  let [kept, waited, differing] = [0, 0, 0];
  checkProperty([symbol, symbol, tradingStrategy, span, fc.nat(100)], numRuns, (past, other, json, window, percent) => {
    const moment = past.t.length === 0 ? 0 : past.t[Math.floor((percent / 100) * (past.t.length - 1))]! + 1;
    // A later settlement belongs to the future.
    const [one, two] = [past, other].map((future) => spliced(past, future, moment));
    const strategy = withoutDroppedOrders(strategyOf(json));
    const [a, b] = [one!, two!].map((series) => simulate(series, strategy, window));
    expect(doneBefore(b!, moment)).toEqual(doneBefore(a!, moment));
    const next = filledNext(b!, moment);
    for (const [what, decided] of filledNext(a!, moment)) {
      const other = next.get(what);
      if (other === undefined || (other >= moment && decided >= moment)) continue;
      expect(other, what).toBe(decided);
      waited++;
    }
    kept += doneBefore(a!, moment).entries.length;
    if (JSON.stringify(a) !== JSON.stringify(b)) differing++;
  });
  // The past is not empty, and the futures differ.
  expect(kept).toBeGreaterThan(numRuns / 4);
  expect(waited).toBeGreaterThan(numRuns / 30);
  expect(differing).toBeGreaterThan(numRuns / 4);
});
