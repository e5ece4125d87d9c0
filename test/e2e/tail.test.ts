import { spawn } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { waitFor } from '../harness/limits.ts';
import { expectDone, folder, launch, processEnv, type Running, sandbox, startLongRunning, ticksOf } from './lake.ts';
import { runJob as job, run } from './run-program.ts';
import { keyOf } from './served-archive.ts';

const input = { seed: 4, markets: 3, ticksPerDay: 20_000, cap: 5000, nowMs: null };
const launcher = new URL('../../bin/oddslake', import.meta.url).pathname;

/** A running `tail`, and what it has printed so far. */
interface Following extends Running {
  lines(): string[];
  notices(): string;
}

function follow(...args: string[]): Following {
  return followWith({}, ...args);
}

function followWith(env: Record<string, string>, ...args: string[]): Following {
  const running = launch(['tail', ...args], env);
  onTestFinished(() => void running.child.kill('SIGKILL'));
  let text = '';
  running.child.stdout!.on('data', (piece: string) => {
    text += piece;
  });
  let notices = '';
  running.child.stderr!.on('data', (piece: string) => {
    notices += piece;
  });
  return { ...running, lines: () => text.split('\n').slice(0, -1), notices: () => notices };
}

/** The published ticks of a symbol from a time on, as `tail --json` prints them. */
const published = (output: string, symbol: string, from: number): string[] =>
  ticksOf(output)
    .get(symbol)!
    .filter(({ t }) => t >= from)
    .map(({ t, p }) => JSON.stringify({ symbol, t, p }));

/** Fetches the ticks of the last minutes. */
async function poll(box: { readonly url: string }, output: string, ...flags: string[]): Promise<void> {
  await expectDone(job('backfill', box.url, output, '--since', '20m', '--force', ...flags));
}

/** An archive, and the symbol with the most ticks. */
async function lake(box: { readonly url: string }): Promise<{ output: string; symbol: string }> {
  const output = folder();
  await poll(box, output);
  const [symbol] = [...ticksOf(output)].sort(([, a], [, b]) => b.length - a.length).map(([name]) => name);
  return { output, symbol: symbol! };
}

const sorted = (lines: readonly string[]): string[] => [...lines].sort();

test('tail prints the ticks since a time and then new ones, each once, and ends with 0 on SIGINT', async () => {
  const box = await sandbox(input);
  const { output, symbol } = await lake(box);
  const from = Date.now() - 600_000;
  const all = follow(symbol, '--output', output, '--since', String(from), '--json');
  const fresh = follow(symbol, '--output', output);
  const before = published(output, symbol, from);
  expect(before.length).toBeGreaterThan(5);
  await waitFor(() => all.lines().length >= before.length, 'the ticks so far');
  expect(all.lines()).toEqual(before);
  await waitFor(() => fresh.notices().endsWith('Ctrl-C\n'), 'the second tail');
  // The symbol trades every few seconds.
  let after = before;
  while (after.length <= before.length) {
    await poll(box, output, '--symbol', symbol);
    after = published(output, symbol, from);
  }
  await waitFor(() => all.lines().length >= after.length, 'the new ticks');
  expect(all.lines()).toEqual(after);
  all.child.kill('SIGINT');
  fresh.child.kill('SIGTERM');
  await expectDone(all.ended);
  const ended = await fresh.ended;
  expect([ended.code, ended.stderr]).toEqual([
    0,
    `waiting for new ticks of ${symbol} in ${output}. A job or a service has to collect them; stop with Ctrl-C\n`,
  ]);
  // Without --since only what is new: the second tail may have begun after the job.
  for (const line of fresh.lines()) {
    const [, time, name, price] = /^(\S+) {2}(.*) {2}(\S+)$/.exec(line)!;
    expect(after.slice(before.length)).toContain(
      JSON.stringify({ symbol: name, t: Date.parse(time!), p: Number(price) }),
    );
  }
});

test('tail ends when its reader has gone, and refuses an unknown symbol, no archive and a service without a key', async () => {
  const box = await sandbox(input);
  const { output, symbol } = await lake(box);
  const command = `${launcher} tail --output ${output} --since 2d --json '${symbol}' | head -n 2; echo "$?"`;
  const pipe = spawn('sh', ['-c', command], { env: processEnv, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  pipe.stdout.on('data', (piece: Buffer) => {
    text += piece.toString();
  });
  expect(await new Promise((resolve) => pipe.once('close', resolve))).toBe(0);
  expect(text.split('\n')).toHaveLength(4);
  const unknown = await run(['tail', 'TYPO', '--output', output]);
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('TYPO is not known in this archive.')]);
  expect((await run(['tail', symbol, '--output', '/nonexistent/x'])).code).toBe(2);
  const keyless = await run(['tail', symbol, '--url', 'http://127.0.0.1:9']);
  expect([keyless.code, keyless.stderr]).toEqual([2, expect.stringContaining('ODDSLAKE_FROM_API_KEY')]);
  expect((await run(['tail', symbol, '--url', 'nowhere'])).stderr).toContain('--url is "nowhere": expected');
});

test('tail follows a service without loss or repetition, also across its restart', async () => {
  const box = await sandbox(input);
  const { output, symbol } = await lake(box);
  const key = await keyOf(output);
  const serve = (port: string) =>
    startLongRunning(['serve', '--output', output, '--json', '--set', `service.port=${port}`]);
  const service = await serve('0');
  const { url } = JSON.parse(service.first) as { url: string };
  const from = Date.now() - 300_000;
  const env = { ODDSLAKE_FROM_API_KEY: key };
  const tail = followWith(env, symbol, '--url', url, '--since', String(from), '--json');
  const pollMore = async (): Promise<string[]> => {
    await poll(box, output, '--symbol', symbol);
    return published(output, symbol, from);
  };
  const before = published(output, symbol, from);
  expect(before.length).toBeGreaterThan(0);
  await waitFor(() => tail.lines().length >= before.length, 'the ticks so far');
  const first = await pollMore();
  await waitFor(() => tail.lines().length >= first.length, 'new ticks');
  service.child.kill('SIGTERM');
  await service.ended;
  await pollMore();
  const again = await serve(new URL(url).port);
  const last = await pollMore();
  await waitFor(() => tail.lines().length >= last.length, 'the ticks of the interruption');
  tail.child.kill('SIGINT');
  const ended = await expectDone(tail.ended);
  expect(sorted(tail.lines())).toEqual(sorted(last));
  // Nothing, if the service stopped while the first ticks were read: that request is then repeated.
  const reported = ended.stderr.replace(`waiting for new ticks of ${symbol} from ${url}; stop with Ctrl-C\n`, '');
  expect(reported).toMatch(/^$|the stream was interrupted/);
  expect(ended.stderr).not.toContain(key);
  const refused = await run(['tail', symbol, '--url', url], { ODDSLAKE_FROM_API_KEY: 'wrong-key' });
  expect([refused.code, refused.stderr]).toEqual([3, expect.stringMatching(/answered 401/)]);
  const unknown = await run(['tail', 'TYPO', '--url', url], env);
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringMatching(/answered 404/)]);
  again.child.kill('SIGTERM');
});
