import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatThousands } from '../../src/base/format-quantity.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`grouped: SEED=${seed}`);

test('groups digits like toLocaleString', () => {
  const some = fc.oneof(fc.maxSafeInteger(), fc.integer(), fc.double(), fc.constantFrom(-0, 999, 1000, -1000));
  fc.assert(
    fc.property(some, (value) => {
      expect(formatThousands(value)).toBe((value === 0 ? 0 : value).toLocaleString('en-US'));
    }),
    { seed },
  );
});
