import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openDatabase } from '../../src/state/database.ts';
import { csvOf, importInto, put } from '../e2e/import-lake.ts';
import { addsUp, dayMs, fixedNow, folder, hashes, run, sleep, start, until } from '../e2e/lake.ts';

const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));
console.log(`import killed: SEED=${seed}`);

const today = Date.UTC(2025, 5, 14);
const yesterday = today - dayMs;

/** Ticks that a run which was killed has left in the journal. */
function journaled(output: string): number {
  if (!existsSync(join(output, '.oddslake/state.sqlite'))) return 0;
  const db = openDatabase(join(output, '.oddslake/state.sqlite'), 5_000);
  try {
    return db.one("SELECT 1 FROM sqlite_master WHERE name = 'journal_ticks'") === undefined
      ? 0
      : (db.one<{ n: number | null }>('SELECT sum(n) AS n FROM journal_ticks')?.n ?? 0);
  } finally {
    db.close();
  }
}

test('the bytes are those of an import that was left alone, however often it was killed', async () => {
  const ticks = Array.from({ length: 120_000 }, (_, i) => ({
    symbol: `S${(i * 7) % 40}`,
    t: yesterday + Math.floor((i * 2 * dayMs) / 120_000),
    p: ((i * 7919 + seed) % 1000) / 1000,
  }));
  const path = put(folder(), 'a.csv.gz', csvOf(ticks), fixedNow);
  const covers = { from: yesterday, to: today + dayMs };
  const calm = folder();
  expect((await importInto(calm, [path], { covers })).ticks.accepted).toBe(120_000);
  const wanted = hashes(calm, 'ticks', 'coverage');

  const output = folder();
  const flags = ['--covers', '2025-06-13..2025-06-15', '--set', 'publish.journal_ticks_max=15000'];
  const args = ['import', path, '--output', output, '--set', 'source.name=box', '--json', '--quiet', ...flags];
  let kills = 0;
  for (let round = 0; round < 4; round++) {
    const running = start(args);
    let over = false;
    void running.ended.then(() => {
      over = true;
    });
    // While it takes rows in, or publishes some of them.
    await until(() => over || journaled(output) > 0, 60_000);
    await sleep((seed * (round + 3)) % 400);
    running.child.kill('SIGKILL');
    if ((await running.ended).signal === 'SIGKILL') kills++;
  }
  expect(kills).toBeGreaterThan(0);
  const last = await run(args);
  expect(last.code, last.stderr).toBe(0);
  expect(addsUp(last.summary)).toBe(true);
  expect(hashes(output, 'ticks', 'coverage')).toEqual(wanted);
  const verified = await run(['verify', '--output', output, '--json']);
  expect(verified.code, verified.stdout).toBe(0);
  // What was unpacked may be as large as the archive.
  expect(globSync('.oddslake/**/*import-*', { cwd: output })).toEqual([]);
});
