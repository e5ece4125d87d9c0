import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chooseParts, computeAimRows, type SizedPart, type SymbolRows } from '../../../src/archive/format/day-parts.ts';
import { compareUtf8 } from '../../../src/base/symbol-name.ts';
import { findRange, isInRange } from '../../../src/base/symbol-range.ts';
import { checkProperty } from '../../harness/properties.ts';
import { share } from '../../harness/share.ts';

/** Publishes rows one after the other, and returns the parts after each. */
function publishAll(publishes: readonly ReadonlyMap<string, number>[], count = 4) {
  const steps: SizedPart[][] = [];
  let parts: SizedPart[] = [];
  for (const rows of publishes) {
    const added = [...rows]
      .map(([symbol, count]): SymbolRows => ({ symbol, rows: count }))
      .sort((a, b) => compareUtf8(a.symbol, b.symbol));
    const aim = computeAimRows(parts, sum(added), count);
    parts = chooseParts(parts, added, aim);
    steps.push(parts);
  }
  return steps;
}

const sum = (all: readonly { readonly rows: number }[]): number => all.reduce((total, { rows }) => total + rows, 0);
const largest = (all: readonly SizedPart[]): number => Math.max(...all.map(({ rows }) => rows));
const meanRows = (all: readonly SizedPart[]): number => sum(all) / all.length;

const anySymbol = fc.oneof(
  fc.string({ unit: fc.constantFrom('A', 'B', 'K', '-', 'é', '｡', '😀'), minLength: 1, maxLength: 4 }),
  fc.nat(99).map((n) => `KX-${n}`),
);
const anyPublish = fc
  .array(fc.tuple(anySymbol, fc.integer({ min: 1, max: 9000 })), { minLength: 1, maxLength: 25 })
  .map((rows) => new Map(rows));

describe('the parts of a day', () => {
  test('have disjoint ranges and numbers; each symbol is in one, and stays in it', () => {
    checkProperty(
      [fc.array(anyPublish, { maxLength: 8 }), fc.integer({ min: 1, max: 9 })],
      share * 300,
      (publishes, count) => {
        const numbers = new Map<string, number>();
        const counts = new Map<string, number>();
        for (const [step, parts] of publishAll(publishes, count).entries()) {
          for (const [symbol, rows] of publishes[step]!) counts.set(symbol, (counts.get(symbol) ?? 0) + rows);
          expect(new Set(parts.map(({ part }) => part)).size).toBe(parts.length);
          for (const [i, { from, to }] of parts.entries()) {
            expect(compareUtf8(from, to)).toBeLessThanOrEqual(0);
            if (i > 0) expect(compareUtf8(parts[i - 1]!.to, from)).toBeLessThan(0);
          }
          for (const symbol of counts.keys()) {
            const { part } = findRange(parts, symbol)!;
            expect(part).toBe(numbers.get(symbol) ?? part);
            numbers.set(symbol, part);
          }
          for (const part of parts) {
            const rows = [...counts].filter(([symbol]) => isInRange(part, symbol)).map(([, count]) => count);
            expect(part.rows).toBe(rows.reduce((total, count) => total + count, 0));
          }
        }
      },
    );
  });

  test('grow within bounds, except for a symbol that is larger', () => {
    checkProperty([anyPublish, anyPublish, fc.integer({ min: 1, max: 40_000 })], share * 300, (first, second, aim) => {
      const toRows = (rows: ReadonlyMap<string, number>): SymbolRows[] =>
        [...rows].map(([symbol, count]) => ({ symbol, rows: count })).sort((a, b) => compareUtf8(a.symbol, b.symbol));
      const before = chooseParts([], toRows(first), aim);
      for (const { from, to, rows } of before) expect(from === to || rows <= 2 * aim).toBe(true);
      const inside = (part: SizedPart): number =>
        sum(toRows(second).filter(({ symbol }) => isInRange(part, symbol))) + part.rows;
      for (const part of chooseParts(before, toRows(second), aim)) {
        const was = before.find((one) => one.part === part.part);
        // Those that are in its range join a part whatever its size.
        const least = was === undefined ? 0 : inside(was);
        expect(part.from === part.to || part.rows <= Math.max(2 * aim, least)).toBe(true);
      }
    });
  });

  test('have about equal sizes at first, in the order of symbols', () => {
    const names = Array.from({ length: 100 }, (_, n) => `S${String(n).padStart(2, '0')}`);
    const [parts] = publishAll([new Map(names.map((name) => [name, 10]))]);
    expect(parts).toMatchObject([
      { part: 0, from: 'S00', to: 'S24', rows: 250 },
      { part: 1, from: 'S25', to: 'S49', rows: 250 },
      { part: 2, from: 'S50', to: 'S74', rows: 250 },
      { part: 3, from: 'S75', to: 'S99', rows: 250 },
    ]);
    expect(publishAll([new Map([['A', 1]])], 1024)[0]).toHaveLength(1);
    expect(publishAll([new Map(names.map((name) => [name, 10]))], 1)[0]).toHaveLength(1);
  });

  test('are balanced when a day begins with one symbol and gets 20,000', () => {
    const others = new Map(Array.from({ length: 20_000 }, (_, n) => [`KX-${n}`, 100]));
    const [first, all] = publishAll([new Map([['KX-5', 3]]), others]);
    expect(first).toMatchObject([{ part: 0, from: 'KX-5', to: 'KX-5' }]);
    expect(largest(all!)).toBeLessThanOrEqual(2 * meanRows(all!));
    expect(all!.length).toBeLessThanOrEqual(32);
  });

  test('are balanced after an alphabetical import that publishes midway', () => {
    const slices = Array.from(
      { length: 8 },
      (_, slice) => new Map(Array.from({ length: 500 }, (_, n) => [`S${slice}-${String(n).padStart(3, '0')}`, 100])),
    );
    for (const parts of publishAll(slices)) expect(largest(parts)).toBeLessThanOrEqual(2 * meanRows(parts));
  });

  test('take symbols that appear one by one into few files', () => {
    const live = new Map(Array.from({ length: 40 }, (_, n) => [`KX-${n}`, 2000]));
    const births = Array.from({ length: 300 }, (_, n) => new Map([[`KY-${(n * 7919) % 300}`, 5]]));
    expect(publishAll([live, ...births]).at(-1)!.length).toBeLessThanOrEqual(6);
  });
});
