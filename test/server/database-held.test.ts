import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { opened, scratchFolder } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { type Serving, serving } from './serving.ts';
import { alice, as, buyAndHold, withTokens } from './users.ts';

/** Starts another process that holds a write transaction until it is given to end. */
async function holding(path: string): Promise<() => Promise<void>> {
  const program = new URL('./workspace/hold-database.ts', import.meta.url).pathname;
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program, path], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill());
  await once(child.stdout, 'data');
  return async () => {
    child.stdin.end();
    await once(child, 'close');
  };
}

/** Stops the clock of the busy timeout; the returned function advances it. */
function standingClock(): (ms: number) => void {
  let at = performance.now();
  const now = vi.spyOn(performance, 'now').mockImplementation(() => at);
  onTestFinished(() => now.mockRestore());
  return (ms) => {
    at += ms;
  };
}

/** A service whose database another process has locked, and a function that sends writes. */
async function heldService() {
  const path = `${scratchFolder()}/service.sqlite`;
  const service = await serving(opened(), { set: withTokens, database: { kind: 'sqlite', path } });
  const letGo = await holding(path);
  const transaction = vi.spyOn(service.workspace.db, 'transaction');
  const post = (name: string) => as(service, alice, 'POST', '/api/v1/strategies', { name, definition: buyAndHold });
  return {
    service,
    letGo,
    post,
    /** Resolves when this many writes wait for the other process. */
    async waiting(count: number): Promise<void> {
      await waitFor(() => transaction.mock.calls.length === count, `${count} writes that wait`);
      await setImmediate();
    },
  };
}

const countOf = async (service: Serving) => (await as(service, alice, 'GET', '/api/v1/strategies')).body.count;

test('while another process writes, reads succeed at once and writes succeed afterwards', async () => {
  const { service, letGo, post, waiting } = await heldService();
  standingClock();
  let written = 0;
  const writes = ['one', 'two'].map(async (name) => {
    const answer = await post(name);
    written++;
    return answer;
  });
  await waiting(2);
  expect([await countOf(service), (await service.ask('/api/v1/markets')).status]).toEqual([0, 200]);
  expect(written).toBe(0);
  await letGo();
  expect((await Promise.all(writes)).map(({ status, body }) => [status, body.name])).toEqual([
    [201, 'one'],
    [201, 'two'],
  ]);
  expect(await countOf(service)).toBe(2);
});

test('writes fail with 503 if another process blocks them for too long', async () => {
  const { letGo, post, waiting } = await heldService();
  const forward = standingClock();
  const posts = Promise.all(['one', 'two', 'three'].map(post));
  await waiting(3);
  // Each waits 10 s from its request: if the waits added up, the second would only start to wait now.
  forward(10_000);
  expect((await posts).map(({ status, headers }) => [status, headers.get('retry-after')])).toEqual([
    [503, '5'],
    [503, '5'],
    [503, '5'],
  ]);
  await letGo();
  expect((await post('one')).status).toBe(201);
});
