import { expect, test } from 'vitest';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { quarantineLines } from '../harness/quarantine.ts';
import { answer, append, day0, now, opened, publishNow } from './scratch.ts';

const quarantined = (root: string): string[] =>
  quarantineLines(root).map((line) => (JSON.parse(line) as { raw: string }).raw);

test('input that is rejected while a publish works is kept for the next one', async () => {
  const archive = opened();
  append(archive, answer('AAA', [[day0, 0.1]], { rejected: [{ reason: 'bad', raw: 'before' }] }));
  let isLate = false;
  const writeInBackground = async (path: string, bytes: Uint8Array | Iterable<Uint8Array>): Promise<void> => {
    const written = archive.disk.writeInBackground(path, bytes);
    // What was rejected has been read by now; a collector journals more of it, of ticks and of markets.
    if (isLate || !path.includes('/quarantine/')) return await written;
    isLate = true;
    append(archive, answer('AAA', [[day0 + 1, 0.1]], { rejected: [{ reason: 'bad', raw: 'meanwhile' }] }));
    const rejected = [{ reason: 'bad', raw: 'a market meanwhile' }];
    appendMarkets(archive.state, { runId: 'run', observedAt: now, markets: [] }, rejected);
    await written;
  };
  await publishNow({ ...archive, disk: { ...archive.disk, writeInBackground } });
  expect(isLate).toBe(true);
  expect(quarantined(archive.layout.root)).toEqual(['before']);
  await publishNow(archive);
  expect(quarantined(archive.layout.root)).toEqual(['before', 'meanwhile', 'a market meanwhile']);
});
