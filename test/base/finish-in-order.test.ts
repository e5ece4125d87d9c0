import fc from 'fast-check';
import { expect, test } from 'vitest';
import { finishInOrder } from '../../src/base/for-each-concurrent.ts';
import { checkAsyncProperty } from '../harness/properties.ts';

const work = fc.record({ turns: fc.nat(5), result: fc.constantFrom('done', 'failed', 'skipped') });

test('work is finished in the order of its items, failed work too, and no more of it is started than allowed', async () => {
  await checkAsyncProperty(
    [fc.array(work, { maxLength: 12 }), fc.integer({ min: 1, max: 4 })],
    50,
    async (items, concurrency) => {
      const finished: unknown[] = [];
      let open = 0;
      let openMost = 0;
      await finishInOrder(
        concurrency,
        items.map((item, n) => ({ ...item, n })),
        ({ turns, result, n }) => {
          if (result === 'skipped') return undefined;
          openMost = Math.max(openMost, ++open);
          return (async () => {
            for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
            if (result === 'failed') throw new Error(`${n}`);
            return n;
          })();
        },
        async ({ n }, settled) => {
          open--;
          finished.push([n, settled.status === 'fulfilled' ? settled.value : (settled.reason as Error).message]);
        },
      );
      const started = items.flatMap(({ result }, n) => (result === 'skipped' ? [] : [{ result, n }]));
      expect(finished).toEqual(started.map(({ result, n }) => [n, result === 'failed' ? `${n}` : n]));
      expect(openMost).toBe(Math.min(concurrency, started.length));
    },
  );
});
