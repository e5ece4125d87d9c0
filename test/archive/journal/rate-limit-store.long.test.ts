import { once } from 'node:events';
import { expect, test } from 'vitest';
import { countMaxWithin } from '../../client/sliding.ts';
import { scratchFolder } from '../scratch.ts';
import { another } from './another-process.ts';

test('three processes together start no more requests than the rate in any second', async () => {
  const folder = scratchFolder();
  const rate = 100;
  const body = `
      const slidingWindow = createSlidingWindow(() => ${rate}, store);
      const starts = [];
      for (const end = clock.monotonicMs() + 2500; clock.monotonicMs() < end; ) {
        const waitMs = store.runExclusive(() => {
          const now = clock.monotonicMs();
          const next = slidingWindow.computeEarliestMs(now);
          if (next > now) return next - now;
          const request = slidingWindow.start(now);
          starts.push(now);
          slidingWindow.noteResponse(request, now + 1);
          return 0;
        });
        await clock.sleep(waitMs);
      }
      console.log(JSON.stringify(starts));`;
  const texts = await Promise.all(
    [1, 2, 3].map(async () => {
      const child = another(folder, body);
      let text = '';
      child.stdout.on('data', (chunk: Buffer) => {
        text += chunk.toString();
      });
      await once(child, 'close');
      return text;
    }),
  );
  const starts = texts.map((text) => JSON.parse(text) as number[]);
  console.log(`rate limit: ${starts.map((each) => each.length).join(', ')} starts of three processes`);
  expect(Math.min(...starts.map((each) => each.length))).toBeGreaterThan(0);
  expect(countMaxWithin(starts.flat(), 1000)).toBeLessThanOrEqual(rate);
});
