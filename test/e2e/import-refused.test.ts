import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { tryLock } from '../../src/archive/journal/lock.ts';
import { day0, importInto, pageOf, put, type Tick } from './import-lake.ts';
import { addsUp, folder, ticksOf } from './lake.ts';
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
  expect((await run(['verify', '--output', output])).code).toBe(0);
  const published = await run(['publish', '--output', output, '--json', '--quiet']);
  expect(published.code, published.stderr).toBe(0);
  expect(published.summary.published.added).toBeGreaterThan(0);
  const all = ticksOf(output);
  for (const symbol of symbols) expect(all.get(symbol)).toHaveLength(100);
});

test('an import stays in the journal if another process publishes for too long', async () => {
  const [files, output] = [folder(), folder()];
  put(files, 'a.json', pageOf('alpha', ticks('alpha', 0)));
  const set = ['source.name=box'];
  await importInto(output, [put(folder(), 'b.json', pageOf('beta', ticks('beta', 0)))], {}, set);
  const lock = tryLock(join(output, '.oddslake', 'lock.sqlite'))!;
  const busy = await importInto(output, [files], {}, set);
  expect(busy).toMatchObject({ exit_code: 5, ticks: { fetched: 50, accepted: 50 }, generation: 1 });
  lock.release();
  const published = await run(['publish', '--output', output, '--json', '--quiet']);
  expect(published.code, published.stderr).toBe(0);
  expect(published.summary).toMatchObject({ recovered: 0, published: { added: 50 } });
  expect(ticksOf(output).get('alpha')).toHaveLength(50);
});
