import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Manifest } from '../../src/archive/format/manifest.ts';
import { dayMs, expectDone, folder, jobArgs, sandbox } from './lake.ts';
import { run, runJob } from './run-program.ts';

const input = { seed: 5, nowMs: null, markets: 6, ticksPerDay: 50 };
const quick = ['--set', 'upstream.retry_attempts_max=1'];

/** A symbol that stays active during the test. */
async function lastingSymbol(url: string): Promise<string> {
  const answer = await fetch(`${url}/api/v1/markets`, { headers: { authorization: 'Bearer sandbox-key' } });
  const { markets } = (await answer.json()) as { markets: { closes_at: number; symbol?: string }[] };
  return markets.find(({ symbol, closes_at }) => symbol !== undefined && closes_at > Date.now() + dayMs)!.symbol!;
}

/** An archive in which all requests of one symbol failed in the first nightly. */
async function failed() {
  const [box, output] = [await sandbox(input), folder()];
  const victim = await lastingSymbol(box.url);
  box.set({ faultSymbols: { [victim]: 500 } });
  const first = await runJob('nightly', box.url, output, ...quick);
  expect(first.code, first.stderr).toBe(4);
  const gaps = async (...flags: string[]) => {
    const { stdout } = await run(['gaps', '--output', output, '--json', ...flags]);
    return (JSON.parse(stdout) as { gaps: { symbol: string; from: number; to: number; reason: string }[] }).gaps;
  };
  const [gap] = await gaps();
  expect(gap).toMatchObject({ symbol: victim, reason: 'failed', detail: expect.stringContaining('500') });
  const manifest = () => JSON.parse(readFileSync(join(output, 'manifest.json'), 'utf8')) as Manifest;
  return { box, output, victim, gaps, gap: gap!, manifest };
}

describe('gaps accept', () => {
  test('turns a failing gap into a warning, without effect on watermark and lag', async () => {
    const { box, output, victim, gaps, gap, manifest } = await failed();
    const args = [victim, '--from', String(gap.from), '--to', String(gap.to), '--reason', 'the venue was down'];
    const before = manifest().generation;
    const accepted = await expectDone(run(['gaps', 'accept', ...args, '--output', output, '--json']));
    const { from, to } = gap;
    expect(JSON.parse(accepted.stdout)).toMatchObject({
      accepted: [{ symbol: victim, from, to, reason: 'the venue was down' }],
      accepted_count: 1,
    });
    expect(manifest()).toMatchObject({ generation: before + 1, accepted: [{ symbol: victim, from: gap.from }] });
    expect(manifest().reached).toBeGreaterThanOrEqual(gap.to);
    expect(await gaps('--symbol', victim)).toMatchObject([{ from: gap.from, to: gap.to, reason: 'accepted' }]);
    box.set({ faultSymbols: {} });
    const requests = box.stats().requests;
    const next = await expectDone(runJob('nightly', box.url, output));
    expect(next.summary.warnings).toEqual([expect.stringMatching(/1 window of 1 symbol .* are accepted as gaps/)]);
    expect(box.stats().requests).toBeGreaterThan(requests);
    expect((await gaps('--symbol', victim))[0]).toMatchObject({ from: gap.from, reason: 'accepted' });
    const status = await expectDone(run(['status', '--output', output, '--max-lag', '10m', '--json']));
    expect(JSON.parse(status.stdout)).toMatchObject({ gaps: { accepted: 1 } });
  });

  test('is reverted by revoke, and the next run fetches the gap', async () => {
    const { box, output, victim, gaps, gap } = await failed();
    const ends = ['--from', String(gap.from), '--to', String(gap.to)];
    await run(['gaps', 'accept', victim, ...ends, '--reason', 'down', '--output', output]);
    box.set({ faultSymbols: {} });
    await expectDone(runJob('nightly', box.url, output));
    expect(await gaps()).not.toEqual([]);
    const revoked = await run(['gaps', 'revoke', victim, '--output', output]);
    expect(revoked.stdout, revoked.stderr).toMatch(/^revoked: .*: down\n$/);
    await expectDone(runJob('nightly', box.url, output));
    expect(await gaps()).toEqual([]);
  });

  test('accepts the gaps that exist, and none that comes later in the same window', async () => {
    const { box, output, victim, gaps, gap, manifest } = await failed();
    const args = [victim, '--from', '2020-01-01', '--to', 'now', '--reason', 'down', '--output', output];
    const accepted = await expectDone(run(['gaps', 'accept', ...args]));
    expect(accepted.stdout).toMatch(/^accepted: \S+ 20\S+Z … 20\S+Z: down\n/);
    expect(manifest().accepted![0]).toMatchObject({ from: gap.from });
    const until = Math.max(...manifest().accepted!.map(({ to }) => to));
    expect([until >= gap.to, until < Date.now()]).toEqual([true, true]);
    const shown = await gaps('--symbol', victim, '--to', String(until));
    expect(new Set(shown.map(({ reason }) => reason))).toEqual(new Set(['accepted']));
    // The symbol still fails, and its next gap is a failure of the run.
    const next = await runJob('nightly', box.url, output, ...quick);
    expect(next.code).toBe(4);
    const later = next.summary.failures.find(
      ({ symbol, reason }) => symbol === victim && !reason.startsWith('accepted'),
    );
    expect(later!.to).toBeGreaterThan(until);
    expect((await gaps('--symbol', victim)).at(-1)).toMatchObject({ reason: 'failed', from: until });
  });

  test('rejects an unknown symbol, a window without gaps, a missing reason, and an empty revoke', async () => {
    const { output, victim, gap, manifest } = await failed();
    const ends = ['--from', String(gap.from), '--to', String(gap.to)];
    const refused = async (pattern: RegExp, ...args: string[]) => {
      const { code, stderr } = await run(['gaps', ...args, '--output', output]);
      expect([code, stderr]).toEqual([2, expect.stringMatching(pattern)]);
    };
    await refused(/NOBODY is not known/, 'accept', 'NOBODY', ...ends, '--reason', 'x');
    await refused(/NOBODY is not known/, 'revoke', 'NOBODY');
    await refused(/reaches into the future/, 'accept', victim, '--from', 'now', '--to', '2100-01-02', '--reason', 'x');
    await refused(
      /reaches into the future/,
      'accept',
      victim,
      ends[0]!,
      ends[1]!,
      '--to',
      '2100-01-01',
      '--reason',
      'x',
    );
    const covered = ['--from', '2020-01-01', '--to', '2020-01-02'];
    await refused(/nothing to accept: .* has no gap from 2020-01-01T/, 'accept', victim, ...covered, '--reason', 'x');
    expect(manifest().accepted ?? []).toEqual([]);
    await refused(/--reason must not be empty/, 'accept', victim, ...ends, '--reason', ' ');
    await refused(/has no accepted gap/, 'revoke', victim);
  });

  test('survives a lost state', async () => {
    const { output, victim, gaps, gap, manifest } = await failed();
    const ends = ['--from', String(gap.from), '--to', String(gap.to)];
    await run(['gaps', 'accept', victim, ...ends, '--reason', 'down', '--output', output]);
    rmSync(join(output, '.oddslake'), { recursive: true });
    expect((await gaps('--symbol', victim)).map(({ reason }) => reason)).toContain('accepted');
    expect(manifest().accepted).toHaveLength(1);
  });
});

const lastRun = ({ stdout }: { stdout: string }): unknown => (JSON.parse(stdout) as { last_run: unknown }).last_run;

test('symbols retry polls suspended symbols now, and exits 4 if they are still unknown', async () => {
  const [box, output] = [await sandbox(input), folder()];
  const victim = await lastingSymbol(box.url);
  box.set({ faultSymbols: { [victim]: 404 } });
  const soon = ['--set', 'source.suspend_after_days=1'];
  expect((await runJob('nightly', box.url, output, ...soon)).summary).toMatchObject({ symbols: { suspended: 1 } });
  const variables = { ODDSLAKE_BASE_URL: box.url, ODDSLAKE_API_KEY: 'sandbox-key' };
  const retry = (...given: string[]) => run(['symbols', 'retry', ...given, ...jobArgs('', output).slice(1)], variables);
  const vain = await retry();
  expect(vain.summary, vain.stderr).toMatchObject({ job: 'ticks', exit_code: 4, symbols: { planned: 1, failed: 1 } });
  box.set({ faultSymbols: {} });
  const [runs, sent] = [await run(['status', '--output', output, '--json']), box.stats().requests];
  const typo = await retry(`${victim}X`);
  expect([typo.code, typo.summary.error]).toEqual([
    2,
    expect.stringContaining(`${victim}X is not known in this archive. (Did you mean ${victim}?)`),
  ]);
  expect(box.stats().requests).toBe(sent);
  expect(lastRun(await run(['status', '--output', output, '--json']))).toEqual(lastRun(runs));
  expect((await retry(victim)).summary).toMatchObject({ exit_code: 0, symbols: { done: 1, suspended: 0 } });
  const requested = box.stats().requests;
  expect((await retry()).summary).toMatchObject({ exit_code: 0, symbols: { planned: 0 } });
  expect(box.stats().requests).toBe(requested);
  expect((await run(['symbols', 'retry', '--output', output, '--help'])).stdout).toContain('symbols retry');
});
