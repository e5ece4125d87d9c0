import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { answer, append, day0, dayMs, now, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { ticksOf } from '../e2e/lake.ts';

const symbols = ['AAA', 'BBB', 'CCC', 'DDD', 'EEE', 'FFF', 'GGG', '🚀'];
const step = 100;
const publishes = 100;

test('a glob over ticks never fails during a hundred publishes and sees no duplicate key and no partial day', async () => {
  const root = scratchFolder();
  const archive = opened({ root });
  /** Extends some symbols' days at one end, so that part files are rewritten in their middle. */
  const grow = async (round: number): Promise<void> => {
    for (const [i, symbol] of symbols.entries()) {
      const day = day0 + ((round + i) % 3) * dayMs;
      const ticks = Array.from(
        { length: step },
        (_, k) => [day + ((k * publishes + round) % dayMs), (k % 100) / 100] as const,
      );
      append(archive, answer(symbol, ticks));
    }
    // The glob covers ticks only: candles would only take time.
    await publishNow(archive, now, 'run', { candles: [] });
  };
  await grow(0);
  const program = new URL('../e2e/reader.ts', import.meta.url).pathname;
  const reader = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program, root, String(step)]);
  onTestFinished(() => void reader.kill('SIGKILL'));
  let output = '';
  reader.stdout.on('data', (data) => {
    output += String(data);
  });
  let complaint = '';
  reader.stderr.on('data', (data) => {
    complaint += String(data);
  });
  await once(reader.stdout, 'data');
  for (let round = 1; round <= publishes; round++) await grow(round);
  writeFileSync(join(root, 'stop'), '');
  const [code] = await once(reader, 'close');
  expect(code, complaint).toBe(0);
  const { rounds, faults, seen } = JSON.parse(output.trimEnd().split('\n').at(-1)!) as Record<
    string,
    number | string[]
  >;
  expect(faults).toEqual([]);
  expect(seen).toBe(symbols.length * 3);
  expect(rounds).toBeGreaterThan(10);
  expect([...ticksOf(root).values()].flat()).toHaveLength(symbols.length * step * (publishes + 1));
});
