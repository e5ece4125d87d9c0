import { expect, test } from 'vitest';
import { openArchiveQuery } from '../../src/archive/query/pinned-query.ts';
import { turnedBack } from '../archive/older.ts';
import { answer, append, day0, dayMs, hourMs, opened, publishNow } from '../archive/scratch.ts';
import { serving } from './serving.ts';

/** An archive of format 1, whose coverage has no column `evidence` and no column `grain_ms`. */
async function older() {
  const first = opened();
  for (const symbol of ['AAA', 'BBB'])
    append(first, answer(symbol, [[day0 + hourMs, 0.5]], { windows: [{ from: day0, to: day0 + dayMs }] }));
  await publishNow(first);
  const { root } = first.layout;
  first.close();
  turnedBack(root);
  return opened({ root, create: false });
}

interface Page {
  readonly coverage: readonly Readonly<Record<string, unknown>>[];
}

test('coverage of an archive of format 1 is inferred, in pages, files and SQL', async () => {
  const archive = await older();
  expect(archive.readManifest().format_version).toBe(1);
  const { json, ask } = await serving(archive);
  const row = { dataset: 'ticks', t_from: day0, t_to: day0 + dayMs, ticks: 1, evidence: 'inferred', grain_ms: null };
  for (const [query, symbols] of [
    ['', ['AAA', 'BBB']],
    ['?symbol=BBB', ['BBB']],
    ['?symbol=AAA&symbol=BBB', ['AAA', 'BBB']],
  ] as const) {
    const { status, body } = await json<Page>(`/api/v1/historical/coverage${query}`);
    expect(status, query).toBe(200);
    expect(body.coverage, query).toMatchObject(symbols.map((symbol) => ({ ...row, symbol })));
  }
  const csv = await (await ask('/api/v1/historical/coverage?format=csv')).text();
  expect(csv.match(/,inferred,\n/g)).toHaveLength(2);
  const { query, close } = await openArchiveQuery(archive, 'FROM coverage', Math.random);
  try {
    expect(await query.readRows('SELECT DISTINCT evidence, grain_ms FROM coverage')).toEqual([
      { evidence: 'inferred', grain_ms: null },
    ]);
  } finally {
    await close();
  }
});
