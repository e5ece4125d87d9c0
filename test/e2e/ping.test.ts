import { createServer } from 'node:http';
import { describe, expect, test } from 'vitest';
import { waitFor } from '../harness/limits.ts';
import { listen } from '../harness/listen.ts';
import {
  access,
  type Ended,
  expectDone,
  fixedDay,
  fixedNow,
  folder,
  jobArgs,
  launch,
  sandbox,
  sequentialFlags,
  start,
} from './lake.ts';
import { run } from './run-program.ts';

const input = { seed: 5, nowMs: fixedNow, markets: 2, ticksPerDay: 20 };
const secretPath = '/ping/0f2a9c3e-nobody-may-see-this';

/** Neither the address nor the key is in any printed or logged text. */
function expectNoSecret({ stdout, stderr }: Ended): void {
  for (const secret of [secretPath, 'sandbox-key']) expect(stdout + stderr).not.toContain(secret);
}

/** A dead man's switch on loopback, and the pings that it got. */
async function openSwitch(status = 200) {
  const pings: { readonly path: string; readonly body: string }[] = [];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      pings.push({ path: request.url!, body: Buffer.concat(pieces).toString() });
      response.writeHead(status).end('OK');
    });
  });
  return { url: `${await listen(server)}${secretPath}`, pings };
}

describe('a dead man’s switch', () => {
  test('is pinged at the start and at the end of a job, with failure at its own address', async () => {
    const [box, output, { url, pings }] = [await sandbox(input), folder(), await openSwitch()];
    const env = { ...access(box.url), ODDSLAKE_PING_URL: url };
    const done = await expectDone(launch(jobArgs('nightly', output, '--date', fixedDay), env).ended);
    expect(pings.map(({ path }) => path)).toEqual([`${secretPath}/start`, secretPath]);
    expect(pings[1]!.body).toMatch(/^oddslake nightly on .* \(exit 0\): /);
    // Another job leaves the switch alone, unless it is named.
    await expectDone(run(jobArgs('publish', output), env));
    expect(pings).toHaveLength(2);
    box.set({ faultSymbols: { [box.symbols()[0]!]: 404 } });
    const backfill = ['--from', '2025-06-10', '--to', '2025-06-12', '--symbol', box.symbols()[0]!, '--all-known'];
    const failUrl = url.replace(secretPath, `${secretPath}/own?code=7`);
    const jobs = ['--set', 'notify.ping_jobs=nightly,backfill', '--set', `notify.ping_fail_url=${failUrl}`];
    await expectDone(run(jobArgs('backfill', output, ...backfill, ...jobs, '--dry-run'), env));
    expect(pings).toHaveLength(2);
    const failed = await run(jobArgs('backfill', output, ...backfill, ...jobs), env);
    expect(failed.code).toBe(4);
    expect(pings.slice(2).map(({ path }) => path)).toEqual([`${secretPath}/start`, `${secretPath}/own?code=7`]);
    expect(pings[3]!.body).toMatch(/backfill on .* \(exit 4\): .*404/);
    for (const ended of [done, failed]) expectNoSecret(ended);
  });

  test('hears of a job that did not start, and of one that SIGTERM stopped', async () => {
    const [box, { url, pings }] = [await sandbox({ ...input, latencyMs: 60_000 }), await openSwitch()];
    expect((await run(jobArgs('nightly', folder()), { ODDSLAKE_PING_URL: url })).code).toBe(2);
    expect(pings.at(-1)).toMatchObject({
      path: `${secretPath}/fail`,
      body: expect.stringContaining('(exit 2): No upstream'),
    });
    const running = start(jobArgs('nightly', folder(), ...sequentialFlags), {
      ...access(box.url),
      ODDSLAKE_PING_URL: url,
    });
    await waitFor(() => box.stats().requests > 0, 'a request of the run');
    running.child.kill('SIGTERM');
    const ended = await running.ended;
    expect(ended.code, ended.stderr).toBe(143);
    expect(pings.slice(-2).map(({ path }) => path)).toEqual([`${secretPath}/start`, `${secretPath}/fail`]);
  });

  test('that fails changes no exit code and is a warning without its address', async () => {
    const [box, refusing] = [await sandbox(input), await openSwitch(410)];
    for (const url of [refusing.url, `http://127.0.0.1:9${secretPath}`]) {
      const args = jobArgs('nightly', folder(), '--date', fixedDay);
      const ended = await expectDone(run(args, { ...access(box.url), ODDSLAKE_PING_URL: url }));
      expect(ended.stderr).toMatch(
        /"level":"warn".*Could not notify the ping address: it (responded with 410|could not)/,
      );
      expectNoSecret(ended);
    }
  });
});
