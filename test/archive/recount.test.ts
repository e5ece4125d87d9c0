import { expect, test } from 'vitest';
import { createUnknownSymbol, type SymbolFacts } from '../../src/archive/format/market.ts';
import { recountSymbols } from '../../src/archive/integrity/repair-files.ts';

const known = (symbol: string, ticks: number, firstTick: number | null, lastTick: number | null): SymbolFacts => ({
  ...createUnknownSymbol(symbol, 1),
  ticks,
  firstTick,
  lastTick,
});
const now = 99;

test('a symbol whose count is other than what is known has the new one, and is reported', () => {
  const counted = { symbol: 'AAA', ticks: 3, firstTick: 10, lastTick: 30 };
  for (const before of [known('AAA', 4, 10, 30), known('AAA', 3, 5, 30), known('AAA', 3, 10, 35)])
    expect(recountSymbols([before], [counted], null, now)).toEqual({
      symbols: [{ ...before, ...counted }],
      changed: [counted],
    });
});

test('a symbol whose count is what is known stays as it is, and is not reported', () => {
  const before = known('AAA', 3, 10, 30);
  const counted = { symbol: 'AAA', ticks: 3, firstTick: 10, lastTick: 30 };
  expect(recountSymbols([before], [counted], null, now)).toEqual({ symbols: [before], changed: [] });
});

test('a symbol without ticks has no times any more', () => {
  const none = { symbol: 'AAA', ticks: 0, firstTick: null, lastTick: null };
  const { symbols, changed } = recountSymbols([known('AAA', 3, 10, 30)], [], null, now);
  expect(symbols).toEqual([known('AAA', 0, null, null)]);
  expect(changed).toEqual([none]);
});

test('a symbol of a part that was not counted stays as it is', () => {
  const before = [known('AAA', 3, 10, 30), known('BBB', 3, 10, 30)];
  const { symbols, changed } = recountSymbols(before, [], [{ from: 'A', to: 'AAA' }], now);
  expect(symbols).toEqual([known('AAA', 0, null, null), before[1]]);
  expect(changed.map(({ symbol }) => symbol)).toEqual(['AAA']);
});

test('a symbol that was not known is from now on, and stands in its place', () => {
  const fresh = (symbol: string) => ({ symbol, ticks: 1, firstTick: 10, lastTick: 10 });
  const before = known('MMM', 1, 10, 10);
  const { symbols, changed } = recountSymbols([before], ['😀', 'AAA', 'MMM', '｡'].map(fresh), null, now);
  // As bytes of UTF-8 sort, not as JavaScript does.
  expect(symbols.map(({ symbol }) => symbol)).toEqual(['AAA', 'MMM', '｡', '😀']);
  expect(changed.map(({ symbol }) => symbol).sort()).toEqual(['AAA', '｡', '😀'].sort());
  expect(symbols[0]).toEqual({ ...createUnknownSymbol('AAA', now), ...fresh('AAA') });
});
