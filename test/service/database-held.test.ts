import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { opened, scratchFolder } from '../archive/scratch.ts';
import { serving } from './serving.ts';
import { alice, as, buyAndHold, withTokens } from './users.ts';

/** Has another process in the midst of a write, until it is told to end. */
async function holding(path: string): Promise<() => Promise<void>> {
  const program = new URL('../workspace/hold-database.ts', import.meta.url).pathname;
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

test('while another process is in the midst of a write, what only reads is answered, and what writes once it is over', async () => {
  const path = `${scratchFolder()}/service.sqlite`;
  const service = await serving(opened(), { set: withTokens, database: { kind: 'sqlite', path } });
  const letGo = await holding(path);
  const began = performance.now();
  let written = 0;
  const writes = ['one', 'two'].map(async (name) => {
    const answer = await as(service, alice, 'POST', '/api/v1/strategies', { name, definition: buyAndHold });
    written++;
    return answer;
  });
  // They are on their way before anything else is asked.
  await new Promise((resolve) => setTimeout(resolve, 200));
  const { body: before } = await as(service, alice, 'GET', '/api/v1/strategies');
  expect([before.count, (await service.ask('/api/v1/markets')).status]).toEqual([0, 200]);
  expect([written, performance.now() - began < 5000]).toEqual([0, true]);
  await letGo();
  expect((await Promise.all(writes)).map(({ status, body }) => [status, body.name])).toEqual([
    [201, 'one'],
    [201, 'two'],
  ]);
  expect((await as(service, alice, 'GET', '/api/v1/strategies')).body.count).toBe(2);
});

test('what another process keeps from being written for too long is refused for now, all of it by then', async () => {
  const path = `${scratchFolder()}/service.sqlite`;
  const service = await serving(opened(), { set: withTokens, database: { kind: 'sqlite', path } });
  const letGo = await holding(path);
  const began = performance.now();
  const post = (name: string) => as(service, alice, 'POST', '/api/v1/strategies', { name, definition: buyAndHold });
  const answers = await Promise.all(['one', 'two', 'three'].map(post));
  expect(answers.map(({ status, headers }) => [status, headers.get('retry-after')])).toEqual([
    [503, '5'],
    [503, '5'],
    [503, '5'],
  ]);
  expect(performance.now() - began).toBeLessThan(15_000);
  await letGo();
  expect((await post('one')).status).toBe(201);
});
