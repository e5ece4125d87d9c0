import { appendFileSync, globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { takeWriteLock } from '../../src/archive/journal/lock.ts';
import { systemClock } from '../../src/base/system.ts';
import { limitMs, waitFor } from '../harness/limits.ts';
import {
  access,
  type Ended,
  expectDone,
  fastFlags,
  fixedDay,
  fixedNow,
  folder,
  jobArgs,
  sandbox,
  sequentialFlags,
  start,
  type Variables,
} from './lake.ts';
import { receiver, secretPath } from './receiver.ts';
import { run, runJob } from './run-program.ts';

const input = { seed: 5, nowMs: fixedNow, markets: 4, ticksPerDay: 50 };

/** Neither the address nor the key is in any printed or logged text. */
function expectNoSecret({ stdout, stderr }: Ended): void {
  expect(stdout + stderr).not.toContain(secretPath);
  expect(stdout + stderr).not.toContain('sandbox-key');
}

describe('a webhook gets a message about a run that ended', () => {
  test('with an exit code other than 0, once, with what is missing; and about success only if enabled', async () => {
    const [box, output, { url, reported }] = [await sandbox(input), folder(), await receiver()];
    const variables = { ...access(box.url), ODDSLAKE_WEBHOOK_URL: url };
    const nightly = (...flags: string[]) => run(jobArgs('nightly', output, '--date', fixedDay, ...flags), variables);
    await expectDone(nightly());
    expect(reported).toEqual([]);
    await expectDone(nightly('--set', 'notify.when=always'));
    expect(reported.map(({ body }) => [body.job, body.exit_code, body.failures])).toEqual([['nightly', 0, []]]);
    box.set({ faultSymbols: { [box.symbols()[0]!]: 404 } });
    const from = ['--from', '2025-06-10', '--to', '2025-06-12', '--symbol', box.symbols()[0]!, '--all-known'];
    const incomplete = await run(jobArgs('backfill', output, ...from), variables);
    expect(incomplete.code, incomplete.stderr).toBe(4);
    expect(reported).toHaveLength(2);
    expect(reported[1]!.path).toBe(secretPath);
    expect(reported[1]!.body).toMatchObject({
      job: 'backfill',
      outcome: 'incomplete',
      exit_code: 4,
      run_id: incomplete.summary.run_id,
      archive: output,
      failures: [{ symbol: box.symbols()[0], reason: expect.stringContaining('404') }],
      text: expect.stringMatching(
        /^oddslake backfill on .* \(exit 4\): 1 symbol failed: \S+: HTTP 404 .*; next: \/\S+\/oddslake backfill --output /,
      ),
    });
    expectNoSecret(incomplete);
  });

  test('with suspended symbols: the day they are suspended, and while they stay so', async () => {
    const [box, output, { url, reported }] = [await sandbox({ ...input, nowMs: null }), folder(), await receiver()];
    const variables = { ...access(box.url), ODDSLAKE_WEBHOOK_URL: url };
    const nightly = (...flags: string[]) => run(jobArgs('nightly', output, ...flags), variables);
    await expectDone(nightly());
    const response = await fetch(`${box.url}/api/v1/markets`, { headers: { authorization: 'Bearer sandbox-key' } });
    const { markets } = (await response.json()) as { markets: { is_active: boolean; symbol?: string }[] };
    const victim = markets.find(({ symbol, is_active }) => symbol !== undefined && is_active)!.symbol!;
    box.set({ faultSymbols: { [victim]: 404 } });
    expect((await nightly('--set', 'source.suspend_after_days=1')).code).toBe(4);
    expect((await nightly()).code).toBe(4);
    expect(reported.map(({ body }) => [body.exit_code, body.suspended])).toEqual([
      [4, 1],
      [4, 1],
    ]);
    for (const { body } of reported)
      expect(body.text).toMatch(
        /\(exit 4\): 1 active symbol suspended: unknown to the service; next: \/\S+\/oddslake symbols retry /,
      );
  });

  test('before it began: no key, a refused key, an unreachable address, another run that is writing', async () => {
    const [box, output, { url, reported }] = [await sandbox(input), folder(), await receiver()];
    const hook = { ODDSLAKE_WEBHOOK_URL: url };
    const notified = () => reported.map(({ body }) => [body.job, body.exit_code]);
    expect((await run(jobArgs('markets', output), { ...hook, ODDSLAKE_BASE_URL: box.url })).code).toBe(2);
    expect((await run(jobArgs('markets', output), { ...hook, ...access(box.url), ODDSLAKE_API_KEY: 'x' })).code).toBe(
      3,
    );
    const attempts = ['--set', 'upstream.retry_attempts_max=1'];
    expect((await run(jobArgs('ticks', output, ...attempts), { ...hook, ...access('http://127.0.0.1:9') })).code).toBe(
      7,
    );
    const lock = await takeWriteLock(join(output, '.oddslake', 'lock.sqlite'), 0, systemClock);
    const busy = await run(jobArgs('markets', output, '--wait', '0'), { ...hook, ...access(box.url) });
    lock.release();
    expect(busy.code, busy.stderr).toBe(5);
    expect((await run(['import', '--output', output, ...fastFlags, 'no-such-file'], { ...hook })).code).toBe(2);
    expect(notified()).toEqual([
      ['markets', 2],
      ['markets', 3],
      ['ticks', 7],
      ['markets', 5],
      ['import', 2],
    ]);
  });

  test('of verify, with the files that are not as published', async () => {
    const [box, output, { url, reported }] = [await sandbox(input), folder(), await receiver()];
    await expectDone(runJob('nightly', box.url, output, '--date', fixedDay));
    const verify = () => run(['verify', '--output', output], { ODDSLAKE_WEBHOOK_URL: url });
    await expectDone(verify());
    expect(reported).toEqual([]);
    const [part] = globSync('ticks/date=*/part-*.parquet', { cwd: output });
    appendFileSync(join(output, part!), 'x');
    expect((await verify()).code).toBe(6);
    expect(reported[0]!.body).toMatchObject({ job: 'verify', exit_code: 6, text: expect.stringContaining(part!) });
    rmSync(join(output, 'manifest.json'));
    expect((await verify()).code).toBe(6);
    expect(reported[1]!.body.text).toContain('manifest.json is missing');
  });

  test('whose webhook address is in a file, and that SIGTERM stopped', async () => {
    const [box, output, { url, reported }] = [
      await sandbox({ ...input, latencyMs: limitMs }),
      folder(),
      await receiver(),
    ];
    const file = join(folder(), 'webhook-url');
    writeFileSync(file, `${url}\n`);
    const variables = { ...access(box.url), ODDSLAKE_WEBHOOK_URL_FILE: file };
    const running = start(jobArgs('nightly', output, ...sequentialFlags), variables);
    await waitFor(() => box.stats().requests > 0, 'a request of the run');
    running.child.kill('SIGTERM');
    const result = await running.ended;
    expect(result.code, result.stderr).toBe(143);
    expect(reported.map(({ body }) => [body.job, body.outcome, body.exit_code])).toEqual([
      ['nightly', 'interrupted', 143],
    ]);
    expectNoSecret(result);
  });
});

describe('a receiver that fails', () => {
  test('changes no exit code and is a warning without its address', async () => {
    const box = await sandbox(input);
    const { url } = await receiver((response) => void response.writeHead(410).end());
    for (const where of [url, `http://127.0.0.1:9${secretPath}`]) {
      const variables = { ...access(box.url), ODDSLAKE_WEBHOOK_URL: where };
      const flags = ['--set', 'notify.when=always', '--date', fixedDay];
      const ended = await expectDone(run(jobArgs('nightly', folder(), ...flags), variables));
      expect(ended.stderr).toMatch(
        /"level":"warn".*Could not notify the webhook: it (responded with 410|could not be reached)/,
      );
      expectNoSecret(ended);
    }
  });

  // Its timeout is three seconds then, ten in any other run.
  test('and hangs delays a run stopped by SIGTERM less than one that failed before it', async () => {
    const [box, silent] = [await sandbox(input), await sandbox({ ...input, latencyMs: limitMs })];
    const { url, reported } = await receiver(() => {});
    const nightly = (variables: Variables) =>
      start(jobArgs('nightly', folder(), ...sequentialFlags), { ...variables, ODDSLAKE_WEBHOOK_URL: url });
    const terminated = nightly(access(silent.url));
    await waitFor(() => silent.stats().requests > 0, 'a request of the run');
    const refused = nightly({ ...access(box.url), ODDSLAKE_API_KEY: 'another' });
    await waitFor(() => reported.length > 0, 'the message about the failed run');
    terminated.child.kill('SIGTERM');
    expect((await terminated.ended).code).toBe(143);
    expect(refused.child.exitCode).toBe(null);
    refused.child.kill('SIGKILL');
    await refused.ended;
    expect(new Set(reported.map(({ body }) => body.exit_code))).toEqual(new Set([3, 143]));
  });
});

test('an archive that cannot be created sends a message, and a demo run does not', async () => {
  const [box, { url, reported }] = [await sandbox(input), await receiver()];
  const taken = join(folder(), 'file');
  writeFileSync(taken, '');
  expect((await run(jobArgs('nightly', taken), { ...access(box.url), ODDSLAKE_WEBHOOK_URL: url })).code).toBe(2);
  expect(reported.map(({ body }) => body.exit_code)).toEqual([2]);
  const demo = folder();
  mkdirSync(join(demo, 'here'));
  const all = ['--set', 'notify.when=always'];
  await expectDone(run(['demo', '--output', join(demo, 'here'), ...all], { ODDSLAKE_WEBHOOK_URL: url }));
  expect(reported).toHaveLength(1);
});
