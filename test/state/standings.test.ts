import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ranks } from '../../src/core/merge.ts';
import type { Stretch } from '../../src/core/standings.ts';
import { dayMs } from '../../src/core/window.ts';
import { addSegments } from '../../src/state/coverage.ts';
import { dayStandings, noteStandings } from '../../src/state/standings.ts';
import { openState, type State } from '../../src/state/state.ts';
import { scratchRoot } from '../harness/scratch-root.ts';

const day = Date.UTC(2026, 0, 1);
let folder: string;
let state: State;

beforeEach(() => {
  folder = mkdtempSync(join(scratchRoot, 'oddslake-standings-'));
  state = openState(folder, { upstream: 'test', parts: 1 });
});

afterEach(() => {
  state.close();
  rmSync(folder, { recursive: true, force: true });
});

const size = 12;
const anyNote = fc.record({
  symbol: fc.constantFrom('A', 'B'),
  from: fc.nat(size - 2),
  length: fc.integer({ min: 1, max: size }),
  observedAt: fc.integer({ min: 0, max: 3 }),
  rank: fc.constantFrom(ranks.import, ranks.poll, ranks.preferred),
});

/** What is known of a key, as a merge asks for it. */
function known(symbol: string, t: number) {
  const standings = dayStandings(state.db, day);
  const around = standings.stretches(symbol).find((s) => s.from <= t && t < s.to);
  const found = standings.contested(symbol, t) ?? around;
  return found === undefined ? undefined : { rank: found.rank, observedAt: found.observedAt };
}

describe('standings', () => {
  test('say of every key what was noted of it last, by itself or with its neighbours', () => {
    // One transaction: nothing here need outlive a crash.
    state.db.transaction(() =>
      fc.assert(
        fc.property(fc.array(anyNote, { maxLength: 8 }), (notes) => {
          state.db.run('delete from imported');
          state.db.run('delete from contested');
          const model = new Map<string, unknown>();
          for (const { symbol, from, length, rank, observedAt } of notes) {
            const to = Math.min(size, from + length);
            for (let t = from; t < to; t++) model.set(`${symbol} ${t}`, { rank, observedAt });
            const stretch: Stretch = { symbol, from: day + from, to: day + to, rank, observedAt };
            const single = { symbol, t: day + from, rank, observedAt };
            noteStandings(
              state.db,
              to - from === 1 ? { contested: [single], stretches: [] } : { contested: [], stretches: [stretch] },
            );
          }
          for (const symbol of ['A', 'B']) {
            for (let t = 0; t < size; t++) expect(known(symbol, day + t)).toEqual(model.get(`${symbol} ${t}`));
          }
          const rows = state.db.all<{ symbol: string; t_from: number; t_to: number }>(
            'select * from imported order by symbol, t_from',
          );
          rows.forEach((row, i) => {
            const next = rows[i + 1];
            expect(row.t_from).toBeLessThan(row.t_to);
            if (next?.symbol === row.symbol) expect(row.t_to).toBeLessThanOrEqual(next.t_from);
          });
        }),
        { numRuns: 150 },
      ),
    );
  });

  test('are those of their own day', () => {
    const stretch = { symbol: 'A', from: day + dayMs - 10, to: day + dayMs, rank: ranks.import, observedAt: 1 };
    noteStandings(state.db, { contested: [{ symbol: 'A', t: day, rank: 1, observedAt: 2 }], stretches: [stretch] });
    expect(dayStandings(state.db, day).stretches('A')).toEqual([stretch]);
    expect(dayStandings(state.db, day + dayMs).stretches('A')).toEqual([]);
    expect(dayStandings(state.db, day - dayMs).contested('A', day)).toBeUndefined();
    expect(dayStandings(state.db, day).standIn('A', day)).toEqual({ rank: ranks.poll, observedAt: -Infinity });
  });

  test('of a polled tick are not when a file was written whose coverage lies over the poll', () => {
    const window = { from: day, to: day + dayMs };
    addSegments(state.db, 'A', [{ ...window, fetchedAt: day + 1, origin: 'poll', evidence: 'confirmed' }], 0);
    expect(dayStandings(state.db, day).standIn('A', day)).toEqual({ rank: ranks.poll, observedAt: day + 1 });
    addSegments(state.db, 'A', [{ ...window, fetchedAt: day + 2, origin: 'import', evidence: 'confirmed' }], 0);
    expect(dayStandings(state.db, day).standIn('A', day)).toEqual({ rank: ranks.poll, observedAt: -Infinity });
  });
});
