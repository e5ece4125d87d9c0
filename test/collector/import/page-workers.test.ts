import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openPageReader } from '../../../src/collector/import/page-workers.ts';
import { scratchFolder } from '../../archive/scratch.ts';

const day = Date.UTC(2026, 6, 11);
const page = {
  symbol: 'A',
  ticks: [{ t: day, p: 0.5 }],
  count: 1,
  from: day,
  to: day + 5000,
  generated_at: day + 4000,
};

test('a batch leaves to a second reading what could not be read, and not what is no response', async () => {
  const scratch = scratchFolder();
  const toFile = (name: string) => ({ path: join(scratch, name), compression: 'none' as const, writtenAt: day });
  const names = ['missing.json', 'invalid.json', 'whole.json'];
  writeFileSync(join(scratch, 'invalid.json'), '{"ticks":');
  writeFileSync(join(scratch, 'whole.json'), JSON.stringify(page));
  const reader = openPageReader({ dataset: null, futureMs: day + 20_000, bytesMax: 1e6, scratch }, undefined);
  const [missing, invalid, whole] = await reader.readPages(names.map(toFile));
  expect(missing).toBeNull();
  expect(invalid).toMatchObject({ kind: 'unreadable', isInvalid: true });
  expect(whole).toMatchObject({ kind: 'ticks', ticks: { symbol: 'A' } });

  expect(reader.readPage(toFile('missing.json'))).toMatchObject({ kind: 'unreadable', isInvalid: false });
  writeFileSync(join(scratch, 'missing.json'), JSON.stringify(page));
  expect(reader.readPage(toFile('missing.json'))).toMatchObject({ kind: 'ticks', ticks: { symbol: 'A' } });
  reader.close();
});
