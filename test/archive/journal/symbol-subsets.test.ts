import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isActive } from '../../../src/archive/completeness/symbol-lifetime.ts';
import { isUnselected } from '../../../src/archive/format/selection.ts';
import { recordSelections } from '../../../src/archive/journal/selection-store.ts';
import { readAllSymbols, readSymbol } from '../../../src/archive/journal/symbol-store.ts';
import {
  hasListedSymbols,
  readCollectedSymbols,
  readPossiblyActiveSymbols,
} from '../../../src/archive/journal/symbol-subsets.ts';
import { checkProperty } from '../../harness/properties.ts';
import { opened } from '../scratch.ts';

const moment = fc.integer({ min: 1, max: 20 });
const maybe = fc.option(moment, { nil: null });
const columns = {
  listed: fc.constantFrom(0, 1),
  resolved_at: maybe,
  outcome: fc.constantFrom(null, 1),
  inactive_since: maybe,
  suspended_at: maybe,
  first_seen: moment,
  last_seen: moment,
  ticks: fc.nat(3),
};
const anySymbol = fc.record({
  columns: fc.record(columns),
  unselected: fc.constantFrom(null, 5, Number.POSITIVE_INFINITY),
  isWatched: fc.boolean(),
});
const names = ['a:X', 'a:Y Z?', 'b:"quoted"', "b:it's", 'b:\u{1f327}'];

test('reads of some symbols give what a filter of all of them gives', () => {
  const { db } = opened().state;
  checkProperty(
    [
      fc.array(anySymbol, { maxLength: names.length }),
      fc.option(fc.subarray([...names, 'a:unknown'])),
      fc.constantFrom(null, 'a', 'b'),
    ],
    200,
    (symbols, named, source) => {
      for (const table of ['symbols', 'unselected', 'watched']) db.run(`delete from ${table}`);
      symbols.forEach((one, i) => {
        const fields = Object.keys(one.columns);
        db.run(
          `insert into symbols (symbol, ${fields.join(', ')}) values (?, ${fields.map(() => '?').join(', ')})`,
          names[i]!,
          ...Object.values(one.columns),
        );
        const window = { from: 1, to: one.unselected!, kind: 'forgotten', reason: null, decidedAt: 1 } as const;
        const selection = {
          ...(one.unselected !== null && { unselected: [window] }),
          ...(one.isWatched && { watchedAt: 1 }),
        };
        recordSelections(db, new Map([[names[i]!, selection]]));
      });
      const all = readAllSymbols(db, source);
      const namedSymbols = named === null ? null : new Set(named);
      const isNamedActive = (facts: (typeof all)[number]): boolean => isActive(facts, namedSymbols);
      const active = readPossiblyActiveSymbols(db, namedSymbols, source);
      expect(active.filter(isNamedActive)).toEqual(all.filter(isNamedActive));
      expect(readCollectedSymbols(db, source)).toEqual(
        all
          .filter((facts) => facts.suspendedAt === null && !isUnselected(facts))
          .map(({ symbol, ticks }) => ({ symbol, ticks })),
      );
      expect(hasListedSymbols(db, source)).toBe(all.some(({ listed }) => listed));
      for (const facts of all) expect(readSymbol(db, facts.symbol)).toEqual(facts);
    },
  );
});
