import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { takeWriteLock } from '../../src/archive/journal/lock.ts';
import { systemClock } from '../../src/base/system.ts';
import { limitMs, waitFor } from '../harness/limits.ts';
import {
  access,
  addsUp,
  dayRows,
  expectDone,
  expectSentence,
  findWrongWindows,
  fixedDay,
  fixedNow,
  folder,
  hashes,
  jobArgs,
  journaledTicks,
  manifestOf,
  sandbox,
  sequentialFlags,
  start,
  totalTicks,
} from './lake.ts';
import { run, runJob } from './run-program.ts';

const input = { seed: 5, nowMs: fixedNow, markets: 6, ticksPerDay: 100 };

describe('errors of the upstream', () => {
  test('a wrong key exits 3 after one request and keeps the archive', async () => {
    const output = folder();
    const box = await sandbox(input);
    await expectDone(runJob('nightly', box.url, output, '--date', '2025-06-13'));
    const before = hashes(output, 'ticks');
    box.set({ key: 'another' });
    const requested = box.stats().requests;
    const refused = await runJob('nightly', box.url, output, '--date', fixedDay);
    expectSentence(refused, 3, /rejected the API key.*401/);
    expect(box.stats().requests - requested).toBe(1);
    expect(refused.stdout + refused.stderr).not.toContain('sandbox-key');
    expect(hashes(output, 'ticks')).toEqual(before);
    box.set({ key: 'sandbox-key' });
    await expectDone(runJob('nightly', box.url, output, '--date', fixedDay));
    expect(findWrongWindows(output, box)).toEqual([]);
  });

  test('a key revoked during a run exits 3, and accepted ticks are published by the next run', async () => {
    const output = folder();
    const box = await sandbox({ ...input, latencyMs: 20 });
    const running = start(jobArgs('nightly', output, '--date', fixedDay), access(box.url));
    await waitFor(() => box.stats().tickRows > 0, 'an answer with ticks');
    box.set({ key: 'another' });
    const ended = await running.ended;
    expectSentence(ended, 3, /rejected the API key/);
    expect(ended.summary.ticks.accepted).toBeGreaterThan(0);
    box.set({ key: 'sandbox-key', latencyMs: 0 });
    const next = await expectDone(runJob('nightly', box.url, output, '--date', fixedDay));
    // Counted by the run that accepted them.
    expect(next.summary.recovered).toBe(0);
    expect(next.summary.published.added).toBe(totalTicks(output));
    expect(totalTicks(output)).toBe(ended.summary.ticks.accepted + next.summary.ticks.accepted);
  });

  test('an unreachable address exits 7', async () => {
    const flags = ['--set', 'upstream.retry_attempts_max=2'];
    expectSentence(await runJob('nightly', 'http://127.0.0.1:9', folder(), ...flags), 7, /could not be reached/);
    expectSentence(
      await runJob('ticks', 'http://no.such.host.invalid', folder(), ...flags, '--symbol', 'A'),
      7,
      /reached/,
    );
  });

  test('an unknown symbol exits 4, and is reported when it is suspended', async () => {
    const output = folder();
    const box = await sandbox({ ...input, nowMs: null });
    const gone = box.symbols()[0]!;
    const listed = (await runJob('markets', box.url, output)).summary;
    expect(listed.exit_code).toBe(0);
    const victim = await liveSymbol(box.url, gone);
    box.set({ faultSymbols: { [victim]: 404 } });
    const days = (n: number) => ['--set', `source.suspend_after_days=${n}`];
    for (const [round, suspended] of [0, 0, 1].entries()) {
      const ended = await runJob('nightly', box.url, output, ...days(round < 2 ? 2 : 1));
      expect(ended.code, ended.stderr).toBe(4);
      expect(ended.summary).toMatchObject({ outcome: 'incomplete', error: null, symbols: { failed: 1, suspended } });
      expect(ended.summary.failures).toContainEqual(
        expect.objectContaining({ symbol: victim, reason: expect.stringContaining('404') }),
      );
      expect(ended.summary.symbols.done).toBe(ended.summary.symbols.planned - 1);
      expect(ended.summary.warnings.some((warning) => warning.includes(victim))).toBe(suspended === 1);
    }
    // One of so few symbols is more than one percent.
    const after = await runJob('nightly', box.url, output);
    expect(after.summary).toMatchObject({ exit_code: 4, symbols: { failed: 0, suspended: 1 } });
    expect(after.summary.failures).toEqual([
      expect.objectContaining({ symbol: null, reason: expect.stringContaining('more than 1 %') }),
    ]);
    expect(after.summary.warnings).toEqual([expect.stringContaining(`does not know 1 symbol (${victim})`)]);
  });
});

/** A symbol of an active market. */
async function liveSymbol(url: string, otherwise: string): Promise<string> {
  const answer = await fetch(`${url}/api/v1/markets`, { headers: { authorization: 'Bearer sandbox-key' } });
  const { markets } = (await answer.json()) as { markets: { is_active: boolean; symbol?: string }[] };
  return markets.find((market) => market.is_active && market.symbol !== undefined)?.symbol ?? otherwise;
}

describe('a run that cannot publish', () => {
  test('waits for --wait, exits 5, and its ticks are published later', async () => {
    const output = folder();
    const box = await sandbox(input);
    mkdirSync(join(output, '.oddslake'));
    const lock = await takeWriteLock(join(output, '.oddslake', 'lock.sqlite'), 0, systemClock);
    const ended = await runJob('nightly', box.url, output, '--date', fixedDay, '--wait', '1');
    expectSentence(ended, 5, /Another run is still writing/);
    expect(ended.summary.finished_at - ended.summary.started_at).toBeGreaterThanOrEqual(1000);
    expect(addsUp(ended.summary)).toBe(true);
    // Nothing is published yet, but the archive is not empty.
    const stated = await run(
      jobArgs('nightly', output, '--date', fixedDay, '--wait', '0').filter((word) => word !== '--json'),
      access(box.url),
    );
    expect(stated.code, stated.stderr).toBe(5);
    expect(stated.stdout).toMatch(/published +nothing by this run; what it collected is in the journal/);
    expect(stated.stdout).not.toMatch(/nothing yet|state +empty|no file changed/);
    lock.release();
    const published = await expectDone(run(['publish', '--output', output, '--json']));
    expect(published.summary.published.added).toBe(ended.summary.ticks.accepted);
    expect(published.summary).toMatchObject({ recovered: 0, ticks: { fetched: 0 } });
    expect(findWrongWindows(output, box)).toEqual([]);
  });

  test('exits 6 for a damaged part and publishes the others', async () => {
    const output = folder();
    const box = await sandbox(input);
    await expectDone(runJob('nightly', box.url, output, '--date', '2025-06-13'));
    const busiest = manifestOf(output).datasets.ticks.files.filter((file) => file.date === '2025-06-13');
    const path = busiest.reduce((a, b) => (b.symbols > a.symbols ? b : a)).path;
    const whole = readFileSync(join(output, path));
    const bad = Buffer.from(whole);
    bad[bad.length >> 1]! ^= 1;
    writeFileSync(join(output, path), bad);
    const ended = await runJob('nightly', box.url, output, '--date', fixedDay);
    expectSentence(ended, 6, /is damaged.*oddslake verify/);
    expect(ended.summary.published.dates).toContain(fixedDay);
    expect(readFileSync(join(output, path))).toEqual(bad);
    const verified = await run(['verify', '--output', output, '--json']);
    expect(verified.code).toBe(6);
    expect(JSON.parse(verified.stdout)).toMatchObject({ findings: [{ path, kind: 'checksum mismatch' }] });
    writeFileSync(join(output, path), whole);
    await expectDone(run(['verify', '--output', output, '--json']));
    const mended = await expectDone(run(['publish', '--output', output, '--json']));
    expect(mended.summary.recovered).toBe(0);
    expect(findWrongWindows(output, box)).toEqual([]);
  });
});

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s in the middle of a run stops it cleanly, and nothing accepted is lost',
  async (signal) => {
    const output = folder();
    const box = await sandbox({ ...input, latencyMs: 30 });
    const running = start(jobArgs('nightly', output, '--date', fixedDay, ...sequentialFlags), access(box.url));
    await waitFor(() => box.stats().tickRows > 0, 'an answer with ticks');
    // The next request gets no response: only the signal can end the run.
    box.set({ latencyMs: limitMs });
    await waitFor(() => journaledTicks(output) > 0, 'ticks in the journal');
    running.child.kill(signal);
    const ended = await running.ended;
    expectSentence(ended, signal === 'SIGINT' ? 130 : 143, new RegExp(`stopped by ${signal}`));
    expect(ended.summary.ticks.accepted).toBeGreaterThan(0);
    box.set({ latencyMs: 0 });
    const next = await expectDone(runJob('nightly', box.url, output, '--date', fixedDay));
    expect(next.summary.recovered).toBe(0);
    expect(ended.summary.ticks.accepted + next.summary.ticks.accepted).toBe(totalTicks(output));
    const calm = folder();
    await runJob('nightly', box.url, calm, '--date', fixedDay);
    expect(dayRows(output, 'ticks')).toEqual(dayRows(calm, 'ticks'));
    rmSync(calm, { recursive: true, force: true });
  },
);
