import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { coverageOf, dayMs, expectDone, fixedNow, folder, manifestOf, minuteMs, sandbox, totalTicks } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

const json = async <T>(...args: string[]): Promise<{ code: number | null; printed: T; stderr: string }> => {
  const { code, stdout, stderr } = await run([...args, '--json']);
  return { code, printed: JSON.parse(stdout) as T, stderr };
};

interface Gaps {
  readonly count: number;
  readonly gaps: readonly {
    readonly symbol: string;
    readonly from: number;
    readonly to: number;
    readonly reason: string;
  }[];
}

test('status prints coverage as text and JSON, and exits 4 beyond --max-lag', async () => {
  const output = folder();
  const nowMs = Date.now() - 10 * minuteMs;
  const box = await sandbox({ seed: 2, nowMs });
  const nightly = await expectDone(job('nightly', box.url, output));
  const { printed } = await expectDone(json<Record<string, unknown>>('status', '--output', output));
  expect(printed).toMatchObject({
    upstream: 'box',
    generation: 1,
    reached: nowMs,
    journaled_ticks: 0,
    gaps: { windows: 0, symbols: 0 },
    published: { ticks: totalTicks(output), days: Object.keys(manifestOf(output).days).length },
    last_runs: [{ job: 'nightly', exit_code: 0, run_id: nightly.summary.run_id, state: 'ended' }],
  });
  // Every command says the same of the days that are not complete.
  const { open_days: openDays, open_days_count: openDaysCount } = printed as {
    open_days: readonly { readonly [name: string]: unknown }[];
    open_days_count: number;
  };
  const [newest] = openDays;
  expect(newest).toMatchObject({
    state: 'provisional',
    reasons: [{ reason: 'inferred', symbols: expect.any(Number) }],
    next_action: expect.stringMatching(
      /^nights prove recent windows; to request what can be proven by now: oddslake backfill --recheck inferred --from /,
    ),
  });
  const counted = { open_days: openDays, open_days_count: openDaysCount };
  expect((await json('gaps', '--output', output)).printed).toMatchObject(counted);
  expect(nightly.summary).toMatchObject(counted);
  const notComplete = `SELECT strftime(date, '%Y-%m-%d') AS date, state, reason, next_action FROM days
    WHERE date < current_date AND reason IS NOT NULL ORDER BY date DESC LIMIT 20`;
  expect((await json<unknown[]>('sql', '--output', output, notComplete)).printed).toEqual(
    openDays.map(({ reasons: _, ...day }) => day),
  );
  expect(printed.lag_ms).toBeGreaterThanOrEqual(10 * minuteMs);
  const text = await expectDone(run(['status', '--output', output, '--max-lag', '1h', '--verbose']));
  expect(text.stdout).toMatch(/^OK: collected to .*, \S+ new ticks\n/);
  // Several days of which the same is to be reported are on one line.
  expect(text.stdout).toMatch(/\n {13}(?:\S+ to )?(\S+) provisional: coverage of \d+ symbols? is inferred\n/);
  expect(text.stdout).toContain(`${String(newest!.date)} provisional: ${String(newest!.reason)}\n`);
  expect(text.stdout).toMatch(/\n {2}verified {3}every published byte since 20/);
  expect(text.stdout).toMatch(/\n {2}last runs {2}nightly, started .*, exit code 0 \(done\)\n/);
  expect(text.stdout).toContain(`${totalTicks(output).toLocaleString('en-US')} ticks`);
  const late = await run(['status', '--output', output, '--max-lag', '5m']);
  expect(late.code).toBe(4);
  expect(late.stderr).toBe('oddslake: the lag exceeds --max-lag 5m.\n');
});

/** A stated start without a tick as evidence is not covered. */
const remembered = fixedNow - 2 * dayMs + 1;

test('lifetimes start at the stated retention of a service, with a warning', async () => {
  const output = folder();
  const box = await sandbox({ seed: 4, nowMs: fixedNow, retentionMs: 2 * dayMs, markets: 5 });
  const asked = ['--from', '2025-06-10', '--to', '2025-06-15'];
  const filled = await job('backfill', box.url, output, ...asked);
  // Somebody asked for what the service no longer has.
  expect(filled.code).toBe(4);
  expect(filled.summary.failures.length).toBeGreaterThan(0);
  for (const { reason } of filled.summary.failures) expect(reason).toMatch(/^expired: the service has no ticks before/);
  const { printed } = await expectDone(
    json<Gaps>('gaps', '--output', output, '--from', '2025-06-10', '--to', '2025-06-15'),
  );
  expect(new Set(printed.gaps.map(({ reason }) => reason))).toEqual(new Set(['expired']));
  const { symbol } = coverageOf(output)[0]!;
  await expectDone(run(['gaps', '--output', output, '--symbol', symbol, '--from', '2025-06-10', '--to', '2025-06-15']));
  expect(coverageOf(output).every(({ from }) => from >= remembered - 1)).toBe(true);
  expect((await run(['gaps', '--output', output, '--symbol', 'nobody'])).code).toBe(2);
  // A repeated fetch gives the same response and no duplicates.
  const before = totalTicks(output);
  await expectDone(job('backfill', box.url, output, '--from', '2025-06-10', '--to', '2025-06-15'));
  expect(totalTicks(output)).toBe(before);
});

test('verify prints totals and damaged files, as text and JSON', async () => {
  const output = folder();
  const box = await sandbox({ seed: 6, nowMs: fixedNow, markets: 4 });
  await expectDone(job('backfill', box.url, output, '--from', '2025-06-12', '--to', '2025-06-14'));
  const whole = await expectDone(run(['verify', '--output', output]));
  expect(whole.stdout).toMatch(/^\d+ files, .*, generation 1: no damage found\n$/);
  writeFileSync(join(output, 'ticks/date=2025-06-12/stray.parquet'), 'x');
  const spoilt = await run(['verify', '--output', output]);
  expect(spoilt.code).toBe(6);
  expect(spoilt.stdout).toMatch(/^ticks\/date=2025-06-12\/stray\.parquet: orphan\n.*: 1 problem\n$/);
  expect(spoilt.stderr).toMatch(/^To repair the archive: \S*bin\/oddslake verify --repair --output \S+\n$/);
  // Known damage is said first.
  const { stdout: status } = await run(['status', '--output', output, '--verbose']);
  expect(status).toMatch(/^1 file damaged: .*stray\.parquet \(orphan\).*\nnext: \S+ verify --repair --output /);
  expect(status).toMatch(/\n {2}verified {3}all but 1 damaged file since 20/);
  const { code, printed } = await json<object>('verify', '--output', output);
  expect(code).toBe(6);
  expect(printed).toMatchObject({ generation: 1, findings: [{ path: 'ticks/date=2025-06-12/stray.parquet' }] });
  const path = join(output, 'manifest.json');
  writeFileSync(path, readFileSync(path, 'utf8').replace('"generation": 1,', '"generation": 7,'));
  const edited = await run(['verify', '--output', output]);
  expect(edited.stdout).toMatch(
    /^manifest\.json: checksum mismatch with the last published manifest: expected generation 1, found generation 7\n.*, generation 1: 2 problems\n$/m,
  );
});
