import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { importInto } from '../../e2e/import-lake.ts';
import { dayMs, firstNight } from './nights.ts';
import { allParts, calmNights, folder, polled, rawFiles } from './raw-nights.ts';

test('raw.bytes_max limits the raw responses and removes the oldest first', async () => {
  const nights = await calmNights(2, {});
  const [, second] = rawFiles(nights.output);
  const bytesMax = readFileSync(second!).length + 10;
  await nights.night(firstNight + dayMs + 60_000, `raw.bytes_max=${bytesMax}`, 'raw.keep_days=30');
  const left = rawFiles(nights.output);
  expect(left.reduce((sum, path) => sum + readFileSync(path).length, 0)).toBeLessThanOrEqual(bytesMax);
  expect(left).not.toContain(rawFiles(nights.output)[-1]);
  expect(left.length).toBeGreaterThan(0);
});

test('reports undecodable raw responses and imports the others', async () => {
  const faults = ['bad-json', 'html', 'wrong-symbol'] as const;
  const nights = await calmNights(1, { faultShare: 0.3, faults }, allParts);
  const again = folder();
  const summary = await importInto(again, rawFiles(nights.output), {}, ['source.name=box', allParts]);
  expect(summary).toMatchObject({ exit_code: 0, failures: [] });
  expect(summary.warnings.join('\n')).toMatch(
    /\d+ responses? w.* rejected: cannot be decoded: (broken JSON|ticks of another)/,
  );
  expect(polled(again)).toEqual(polled(nights.output));
});
