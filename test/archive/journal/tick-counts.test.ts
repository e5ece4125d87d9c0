import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readSymbol } from '../../../src/archive/journal/symbol-store.ts';
import { addTickDeltas } from '../../../src/archive/journal/tick-counts.ts';
import { checkProperty } from '../../harness/properties.ts';
import { opened } from '../scratch.ts';

const delta = fc
  .record({ symbol: fc.constantFrom('A', 'B'), added: fc.nat(9), first: fc.nat(50), more: fc.nat(50) })
  .map(({ first, more, ...rest }) => ({ ...rest, first, last: first + more }));

test('the counts of a symbol are those of all its deltas, in any order and any number of calls', () => {
  const { db } = opened().state;
  checkProperty([fc.array(fc.array(delta, { maxLength: 4 }), { minLength: 1, maxLength: 3 })], 200, (calls) => {
    db.run('delete from symbols');
    for (const deltas of calls) addTickDeltas(db, deltas, 7);
    for (const symbol of ['A', 'B']) {
      const all = calls.flat().filter((one) => one.symbol === symbol);
      const facts = readSymbol(db, symbol);
      if (all.length === 0) expect(facts).toBeUndefined();
      else
        expect(facts).toMatchObject({
          ticks: all.reduce((sum, { added }) => sum + added, 0),
          firstTick: Math.min(...all.map(({ first }) => first)),
          lastTick: Math.max(...all.map(({ last }) => last)),
          firstSeen: 7,
        });
    }
  });
});
