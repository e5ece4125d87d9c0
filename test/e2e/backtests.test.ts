import { expect, test } from 'vitest';
import { systemClock } from '../../src/base/system.ts';
import { issueUserToken } from '../../src/server/workspace/user-tokens.ts';
import { answer, append, day0, opened, publishNow } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { backtestPath, type Kept, long, path, runDirectly } from '../server/backtesting.ts';
import { secret } from '../server/forged-tokens.ts';
import { folder } from './lake.ts';
import { type ServeProcess, serve } from './served-archive.ts';

const tokens = { issuer: 'oddslake', audience: 'oddslake', secret, jwksUrl: null, jwksFile: null };

/** An archive whose backtests take long. */
async function large() {
  const root = folder();
  const archive = opened({ root, parts: 2 });
  for (const [symbol, pace] of [
    ['KX A', 40],
    ['KX D', 97],
  ] as const) {
    const ticks = Array.from(
      { length: 50_000 },
      (_, i) => [day0 + i * 60_000, 0.5 + 0.4 * Math.sin(i / pace)] as const,
    );
    append(archive, answer(symbol, ticks));
  }
  await publishNow(archive);
  const wanted = await runDirectly(archive, long(20));
  archive.close();
  return { root, wanted };
}

const post = (service: ServeProcess, body: unknown): Promise<Response> =>
  service.ask(path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  });

/** Number of requests in flight, including this one. */
const underWay = async (service: ServeProcess): Promise<number> => {
  const text = await (await service.ask('/metrics')).text();
  return Number(/^oddslake_http_requests_in_flight (\d+)$/m.exec(text)?.[1]);
};

test('a service stopped or killed during a backtest runs it after the next start', async () => {
  const { root, wanted } = await large();
  const requested = {
    user: 'alice',
    workspace: null,
    scopes: ['research'],
    expiresAt: systemClock.nowMs() + 3_600_000,
  };
  const token = await issueUserToken(tokens, requested, systemClock.nowMs());
  const start = () => serve(root, token, '--set', `service.tokens.secret=${secret}`);
  const jobOf = async (service: ServeProcess, id: string) =>
    (await (await service.ask(`${backtestPath}/${id}`)).json()) as Kept;

  const first = await start();
  const ids: string[] = [];
  for (const points of [20, 20]) {
    const answered = await post(first, { ...long(points), save: true });
    expect(answered.status).toBe(202);
    ids.push(((await answered.json()) as Kept).id);
  }
  /** Whether a backtest is running. */
  const isBegun = async (service: ServeProcess) => {
    const jobs = await Promise.all(ids.map((id) => jobOf(service, id)));
    return jobs.some(({ state, progress }) => state === 'running' && progress.batches_total !== null);
  };
  await waitFor(() => isBegun(first), 'the middle of a backtest');
  expect(await first.end('SIGKILL')).toBe(null);

  const second = await start();
  await waitFor(() => isBegun(second), 'the middle of a backtest, after the next start');
  const cutOff = 'cut off after ten seconds';
  const atOnce = post(second, long(20)).then(
    async (response) => [response.status, (await response.json()) as object] as const,
    () => cutOff,
  );
  await waitFor(async () => (await underWay(second)) === 2, 'a backtest that is answered at once');
  expect(await second.end('SIGTERM')).toBe(0);
  // A backtest without `save` is waited for; a slow machine may not end it in time.
  const outcome = await atOnce;
  if (outcome !== cutOff) expect(outcome).toEqual([200, { ...(wanted as object), generated_at: expect.any(Number) }]);

  const third = await start();
  for (const id of ids) {
    await waitFor(async () => ['done', 'failed'].includes((await jobOf(third, id)).state), 'the end of a backtest');
    const { state, result } = await jobOf(third, id);
    expect([state, result]).toEqual(['done', wanted]);
  }
  expect(await third.end('SIGTERM')).toBe(0);
});
