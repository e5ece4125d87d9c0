import { join } from 'node:path';
import { expect, test } from 'vitest';
import { tryLock } from '../../src/archive/journal/lock.ts';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { limitMs, waitFor } from '../harness/limits.ts';
import { withState } from '../harness/with-state.ts';
import { csvOf, importInto, put } from './import-lake.ts';
import {
  access,
  addsUp,
  dayMs,
  type Ended,
  fixedDay,
  fixedNow,
  folder,
  jobArgs,
  journaledTicks,
  sandbox,
  start,
  ticksOf,
  totalTicks,
} from './lake.ts';
import { runJob as job, run } from './run-program.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`numbers: SEED=${seed}`);

/** Longer than any test: the next response never comes. */
const neverMs = limitMs;
const oneByOne = ['--set', 'upstream.concurrency=1', '--set', 'poll.page_limit=200'];

/** Sums over the runs that reported their end. */
const sumsOf = (summaries: readonly Summary[]) => ({
  counted: summaries.reduce((sum, { ticks, recovered }) => sum + ticks.accepted + recovered, 0),
  published: summaries.reduce((sum, { published }) => sum + published.added - published.lost, 0),
});

test('sums over runs match the archive: killed, resumed, stopped, published by another, backfilled, imported', async () => {
  const output = folder();
  const box = await sandbox({ seed, nowMs: fixedNow, markets: 6 });
  const summaries: Summary[] = [];
  const took = ({ summary }: Pick<Ended, 'summary'>): Summary => {
    expect(addsUp(summary), JSON.stringify(summary.ticks)).toBe(true);
    summaries.push(summary);
    return summary;
  };
  const midway = async (name: string, ...args: string[]) => {
    box.set({ latencyMs: 20 });
    const before = journaledTicks(output);
    const running = start(jobArgs(name, output, ...args, ...oneByOne), access(box.url));
    await waitFor(() => journaledTicks(output) > before, 'ticks in the journal');
    box.set({ latencyMs: neverMs });
    return running;
  };
  const range = ['--from', '2025-06-11', '--to', '2025-06-13'];

  // Killed after it published some ticks and perhaps journaled others; it reports neither.
  box.set({ latencyMs: 20 });
  const small = ['--set', 'publish.journal_ticks_max=300'];
  const killed = start(jobArgs('nightly', output, '--date', fixedDay, ...oneByOne, ...small), access(box.url));
  await waitFor(() => totalTicks(output) > 0, 'published ticks');
  box.set({ latencyMs: neverMs });
  killed.child.kill('SIGKILL');
  await killed.ended;
  box.set({ latencyMs: 0 });
  const resumed = took(await job('nightly', box.url, output, '--date', fixedDay));
  expect(resumed.recovered).toBeGreaterThan(0);
  expect(sumsOf(summaries)).toEqual({ counted: totalTicks(output), published: totalTicks(output) });

  // Stopped cleanly: what it journaled counts for it, whichever run publishes it.
  const stopped = await midway('backfill', ...range, '--force');
  stopped.child.kill('SIGTERM');
  const { summary } = await stopped.ended;
  took({ summary });
  expect(summary.exit_code).toBe(143);
  const waiting = journaledTicks(output);
  expect(waiting).toBeGreaterThan(0);
  box.set({ latencyMs: 0 });

  // Another run that may not publish: the same ticks again, and more.
  const lock = tryLock(join(output, '.oddslake', 'lock.sqlite'))!;
  const busy = took(await job('backfill', box.url, output, ...range, '--force', '--wait', '0'));
  lock.release();
  expect(busy).toMatchObject({ exit_code: 5, published: { files: 0, added: 0 } });
  expect(busy.ticks.duplicates).toBeGreaterThan(0);

  const published = took(await run(['publish', '--output', output, '--json']));
  expect(published).toMatchObject({ recovered: 0, ticks: { fetched: 0 } });
  expect(published.published.added).toBe(summary.ticks.accepted + busy.ticks.accepted);
  expect(sumsOf(summaries)).toEqual({ counted: totalTicks(output), published: totalTicks(output) });

  const [symbol, held] = [...ticksOf(output)][0]!;
  const rows = [...held.slice(0, 5), { t: fixedNow - 30 * dayMs, p: 0.5 }].map((tick) => ({ symbol, ...tick }));
  const imported = await importInto(output, [put(folder(), 'a.csv', csvOf(rows), fixedNow)]);
  expect(took({ summary: imported }).ticks).toMatchObject({ accepted: 1, duplicates: 5 });
  took(await job('backfill', box.url, output, '--from', '2025-06-08', '--to', '2025-06-11'));
  took(await job('nightly', box.url, output, '--date', fixedDay));
  expect(sumsOf(summaries)).toEqual({ counted: totalTicks(output), published: totalTicks(output) });

  // The state keeps the same counts of each run as its summary.
  for (const { run_id, ticks, recovered } of summaries) {
    const row = withState(output, (db) => db.one('select * from runs where run_id = ?', run_id!));
    expect(row).toMatchObject({ fetched: ticks.fetched, accepted: ticks.accepted, recovered });
  }
});
