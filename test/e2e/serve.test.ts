import { expect, test } from 'vitest';
import { connected, received } from '../server/raw.ts';
import { folder, job, run, sandbox, startLongRunning } from './lake.ts';

const served = (...args: string[]) => startLongRunning(['serve', ...args]);

async function lake(): Promise<string> {
  const output = folder();
  const box = await sandbox({ markets: 3, ticksPerDay: 20 });
  const { code, stderr } = await job('markets', box.url, output);
  expect(code, stderr).toBe(0);
  return output;
}

test('serve prints its address and exits 0 when stopped', async () => {
  const output = await lake();
  const { child, ended, first } = await served('--output', output, '--json', '--set', 'service.port=0');
  const { url, docs, archive } = JSON.parse(first) as Record<string, string>;
  expect([docs, archive]).toEqual([`${url}/docs`, output]);
  expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ status: 'ok' });
  expect((await fetch(docs!)).status).toBe(200);

  const port = new URL(url!).port;
  const second = await run(['serve', '--output', output, '--set', `service.port=${port}`]);
  expect(second.code).toBe(2);
  expect(second.stderr).toContain(
    `Could not listen on 127.0.0.1 port ${port} (service.port): another program uses it.`,
  );
  expect(second.stderr).not.toMatch(/\n\s+at /);

  // An open connection does not delay the exit.
  const kept = connected(url!);
  kept.write('GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n');
  await new Promise((resolve) => kept.once('data', resolve));
  const closed = received(kept);
  child.kill('SIGTERM');
  const { code, stdout, stderr } = await ended;
  await closed;
  expect([code, stdout]).toEqual([0, first]);
  expect(stderr).toContain('service stopped');
  const lines = stderr
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines.filter(({ path }) => path === '/docs')).toEqual([
    expect.objectContaining({ status: 200, method: 'GET' }),
  ]);
});

test('serve on a terminal names the documentation and how to make a key', async () => {
  const output = await lake();
  const { child, ended, first } = await served('--output', output, '--set', 'service.port=0');
  expect(first).toContain(`serving ${output}\n`);
  expect(first).toMatch(/address +http:\/\/127\.0\.0\.1:\d+\n/);
  expect(first).toMatch(/documentation +http:\/\/127\.0\.0\.1:\d+\/docs\n/);
  expect(first).toContain(`oddslake keys create --name NAME --output ${output}\n`);
  child.kill('SIGINT');
  expect((await ended).code).toBe(0);
});

test('serve listens on service.host, and reports why it cannot', async () => {
  const output = await lake();
  const away = await run(['serve', '--output', output, '--set', 'service.host=203.0.113.1', '--set', 'service.port=0']);
  expect([away.code, away.stderr]).toEqual([2, expect.stringContaining('this machine does not have this address')]);
  const { first } = await served('--output', output, '--json', '--set', 'service.host=::1', '--set', 'service.port=0');
  expect((await fetch(`${(JSON.parse(first) as { url: string }).url}/healthz`)).status).toBe(200);
});

test('serve continues when its log reader exits', async () => {
  const output = await lake();
  const { child, ended, first } = await served('--output', output, '--json', '--set', 'service.port=0');
  const { url } = JSON.parse(first) as { url: string };
  child.stderr!.destroy();
  for (let i = 0; i < 5; i++) expect((await fetch(`${url}/api/v1/markets`)).status).toBe(401);
  child.kill('SIGTERM');
  expect((await ended).code).toBe(0);
});
