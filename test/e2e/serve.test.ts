import { spawn } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { needsCommands } from '../harness/needs.ts';
import { connected, received } from '../server/raw.ts';
import { expectDone, folder, processEnv, sandbox, startLongRunning } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

const served = (...args: string[]) => startLongRunning(['serve', ...args]);

async function lake(): Promise<string> {
  const output = folder();
  const box = await sandbox({ markets: 3, ticksPerDay: 20 });
  await expectDone(job('markets', box.url, output));
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
  await expectDone(ended);
});

const main = new URL('../../bin/main.ts', import.meta.url).pathname;

/** Output of serve on a terminal, until it has named how to stop it. */
async function servedOnTerminal(...args: readonly string[]): Promise<string> {
  const words = [process.execPath, '--disable-warning=ExperimentalWarning', main, 'serve', ...args];
  const command = words.map((word) => `'${word}'`).join(' ');
  const child = spawn('script', ['-qec', `exec ${command}`, '/dev/null'], {
    env: processEnv,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let text = '';
  return await new Promise((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
      if (text.includes('Ctrl-C')) resolve(text);
    });
    child.once('exit', () => reject(new Error(text)));
  });
}

test(
  'serve prints a sign-in link on a terminal only, and only if the catalogue asks for a key',
  needsCommands('script'),
  async () => {
    const output = await lake();
    const common = ['--output', output, '--set', 'service.port=0'];
    const text = await servedOnTerminal(...common, '--set', 'service.public_catalogue=false');
    const [, url, key] = /sign in +(http:\/\/127\.0\.0\.1:\d+)\/#sign-in=(olo_[\w-]{43})\r?\n/.exec(text) ?? [];
    const exchange = () =>
      fetch(`${url}/api/v1/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ one_time_key: key }),
      });
    const { credential } = (await (await exchange()).json()) as { credential: string };
    const read = (headers: Record<string, string>) => fetch(`${url}/api/v1/historical/markets`, { headers });
    expect((await read({ authorization: `Bearer ${credential}` })).status).toBe(200);
    expect((await read({})).status).toBe(401);
    expect((await exchange()).status).toBe(401);

    const open = await servedOnTerminal(...common);
    expect(open).not.toContain('sign-in');
    const { first, printed } = await served(...common, '--set', 'service.public_catalogue=false');
    expect(first + printed.stderr).not.toContain('olo_');
    const address = /address +(\S+)/.exec(open)![1]!;
    expect((await fetch(`${address}/api/v1/historical/markets`)).status).toBe(200);
  },
);

test('serve listens on service.host, and reports why it cannot', async () => {
  const output = await lake();
  const away = await run(['serve', '--output', output, '--set', 'service.host=203.0.113.1', '--set', 'service.port=0']);
  expect([away.code, away.stderr]).toEqual([2, expect.stringContaining('this machine does not have this address')]);
  const { first } = await served('--output', output, '--json', '--set', 'service.host=::1', '--set', 'service.port=0');
  expect((await fetch(`${(JSON.parse(first) as { url: string }).url}/healthz`)).status).toBe(200);
});

test('serve --host and --port stand for the settings, and override them', async () => {
  const output = await lake();
  const settings = ['--set', 'service.host=203.0.113.1', '--set', 'service.port=1'];
  const { child, ended, first } = await served('--output', output, ...settings, '--host', '::1', '--port', '0');
  const [, url, port] = /address +(http:\/\/\[::1\]:(\d+))\b/.exec(first)!;
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  const second = await run(['serve', '--output', output, '--host', '::1', '--port', port!]);
  expect([second.code, second.stderr]).toEqual([2, expect.stringContaining(`Could not listen on ::1 port ${port}`)]);
  child.kill('SIGTERM');
  await expectDone(ended);
  const wrong = await run(['serve', '--output', output, '--port', 'http']);
  expect([wrong.code, wrong.stderr]).toEqual([
    2,
    expect.stringContaining('--port: service.port is "http": expected a whole number from 0 to 65535'),
  ]);
});

test('serve continues when its log reader exits', async () => {
  const output = await lake();
  const { child, ended, first } = await served('--output', output, '--json', '--set', 'service.port=0');
  const { url } = JSON.parse(first) as { url: string };
  child.stderr!.destroy();
  for (let i = 0; i < 5; i++) expect((await fetch(`${url}/api/v1/markets`)).status).toBe(401);
  child.kill('SIGTERM');
  await expectDone(ended);
});
