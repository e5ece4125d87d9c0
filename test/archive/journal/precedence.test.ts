import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { PrecedenceWindow } from '../../../src/archive/format/precedence.ts';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { overlayPublishedCoverage } from '../../../src/archive/journal/coverage-store.ts';
import { openDayPrecedence, recordPrecedence } from '../../../src/archive/journal/precedence-store.ts';
import { openState, type State } from '../../../src/archive/journal/state.ts';
import { dayMs } from '../../../src/base/window.ts';
import { checkProperty } from '../../harness/properties.ts';
import { scratchRoot } from '../../harness/scratch-root.ts';

const day = Date.UTC(2026, 0, 1);
let folder: string;
let state: State;

beforeEach(() => {
  folder = mkdtempSync(join(scratchRoot, 'oddslake-precedence-'));
  state = openState(folder, { upstream: 'test' });
});

afterEach(() => {
  state.close();
  rmSync(folder, { recursive: true, force: true });
});

const size = 12;
const arbitraryRecord = fc.record({
  symbol: fc.constantFrom('A', 'B'),
  from: fc.nat(size - 2),
  length: fc.integer({ min: 1, max: size }),
  observedAt: fc.integer({ min: 0, max: 3 }),
  rank: fc.constantFrom(precedenceRanks.import, precedenceRanks.poll, precedenceRanks.preferred),
});

/** The known precedence of a key, as a merge looks it up. */
function knownPrecedenceOf(symbol: string, t: number) {
  const precedence = openDayPrecedence(state.db, day);
  const actual = precedence.getWindows(symbol).find((s) => s.from <= t && t < s.to);
  return actual === undefined ? undefined : { rank: actual.rank, observedAt: actual.observedAt };
}

describe('stored precedence', () => {
  test('returns for every key what was recorded last', () => {
    // One transaction, since nothing here has to survive a crash.
    state.db.transaction(() =>
      checkProperty([fc.array(arbitraryRecord, { maxLength: 8 })], 150, (records) => {
        state.db.run('delete from precedence');
        const model = new Map<string, unknown>();
        for (const { symbol, from, length, rank, observedAt } of records) {
          const to = Math.min(size, from + length);
          for (let t = from; t < to; t++) model.set(`${symbol} ${t}`, { rank, observedAt });
          const window: PrecedenceWindow = { symbol, from: day + from, to: day + to, rank, observedAt };
          recordPrecedence(state.db, [window]);
        }
        for (const symbol of ['A', 'B']) {
          for (let t = 0; t < size; t++)
            expect(knownPrecedenceOf(symbol, day + t)).toEqual(model.get(`${symbol} ${t}`));
        }
        for (const symbol of ['A', 'B']) {
          openDayPrecedence(state.db, day)
            .getWindows(symbol)
            .forEach(({ from, to }, i, all) => {
              expect(from).toBeLessThan(to);
              expect(to).toBeLessThanOrEqual(all[i + 1]?.from ?? to);
            });
        }
      }),
    );
  });

  test('applies to its own day only', () => {
    const window = {
      symbol: 'A',
      from: day + dayMs - 10,
      to: day + dayMs,
      rank: precedenceRanks.import,
      observedAt: 1,
    };
    const next = { symbol: 'A', from: day + dayMs, to: day + dayMs + 1, rank: precedenceRanks.poll, observedAt: -5 };
    recordPrecedence(state.db, [window, next]);
    expect(openDayPrecedence(state.db, day).getWindows('A')).toEqual([window]);
    expect(openDayPrecedence(state.db, day + dayMs).getWindows('A')).toEqual([next]);
    expect(openDayPrecedence(state.db, day - dayMs).getWindows('A')).toEqual([]);
    expect(openDayPrecedence(state.db, day).inferPrecedence('A', day)).toEqual({
      rank: precedenceRanks.poll,
      observedAt: -Infinity,
    });
  });

  test('of a polled tick does not come from a file whose coverage overlies the poll', () => {
    const window = { from: day, to: day + dayMs };
    overlayPublishedCoverage(state.db, 'A', [{ ...window, fetchedAt: day + 1, origin: 'poll', evidence: 'confirmed' }]);
    expect(openDayPrecedence(state.db, day).inferPrecedence('A', day)).toEqual({
      rank: precedenceRanks.poll,
      observedAt: day + 1,
    });
    overlayPublishedCoverage(state.db, 'A', [
      { ...window, fetchedAt: day + 2, origin: 'import', evidence: 'confirmed' },
    ]);
    expect(openDayPrecedence(state.db, day).inferPrecedence('A', day)).toEqual({
      rank: precedenceRanks.poll,
      observedAt: -Infinity,
    });
  });
});
