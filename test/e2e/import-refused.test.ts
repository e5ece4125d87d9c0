import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { day0, importInto, pageOf, put, type Tick } from './import-lake.ts';
import { addsUp, expectDone, folder, ticksOf } from './lake.ts';
import { run } from './run-program.ts';

const ticks = (symbol: string, from: number): Tick[] =>
  Array.from({ length: 50 }, (_, i) => ({ symbol, t: day0 + from + i * 60_000, p: (i % 10) / 10 }));

test('an import for a damaged part file waits in the journal until the repair; the rest is published', async () => {
  const [files, later, output] = [folder(), folder(), folder()];
  const symbols = ['alpha', 'beta', 'gamma', 'delta', 'epsilon'];
  for (const symbol of symbols) {
    put(files, `${symbol}.json`, pageOf(symbol, ticks(symbol, 0)));
    put(later, `${symbol}.json`, pageOf(symbol, ticks(symbol, 7_200_000)));
  }
  const set = ['source.name=box', 'archive.parts=2'];
  expect((await importInto(output, [files], {}, set)).ticks.accepted).toBe(250);
  const [part] = globSync('ticks/*/part-00.parquet', { cwd: output }).map((path) => join(output, path));
  const intact = readFileSync(part!);
  const damaged = Buffer.from(intact);
  damaged[100]! ^= 1;
  writeFileSync(part!, damaged);

  const refused = await importInto(output, [later], {}, set);
  expect(refused.exit_code).toBe(6);
  expect(refused.error).toContain('stay in the journal');
  expect(refused.ticks).toMatchObject({ fetched: 250, accepted: 250 });
  expect(addsUp(refused)).toBe(true);

  writeFileSync(part!, intact);
  await expectDone(run(['verify', '--output', output]));
  const published = await expectDone(run(['publish', '--output', output, '--json', '--quiet']));
  expect(published.summary.published.added).toBeGreaterThan(0);
  const all = ticksOf(output);
  for (const symbol of symbols) expect(all.get(symbol)).toHaveLength(100);
});
