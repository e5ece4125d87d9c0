import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Clock } from '../../src/core/clock.ts';
import { collectBooks, spreadFirst } from '../../src/ingest/collect-books.ts';
import type { SandboxOptions } from '../../src/sandbox/options.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import type { BookRecord } from '../../src/state/journal-books.ts';
import { systemClock, systemRandom } from '../../src/system.ts';
import { openUpstream } from '../../src/upstream/client.ts';

const symbols = Array.from({ length: 60 }, (_, i) => `S${i}`);

/** A poll of real requests; `baseUrl` in place of a sandbox where nobody shall be there. */
async function polled(
  options: Partial<SandboxOptions>,
  names: readonly string[] = symbols,
  baseUrl?: string,
  stop?: AbortController,
  clock: Clock = systemClock,
) {
  const box = await startSandbox({ markets: 5, ...options }, { clock: systemClock });
  const limits = { requestsPerSecond: 5000, retryDelayMsMin: 1, retryDelayMsMax: 2, retryAttemptsMax: 2 };
  const access = { baseUrl: baseUrl ?? box.url, apiKey: 'sandbox-key', userAgent: 'test' };
  const upstream = openUpstream({ ...limits, ...access }, { clock: systemClock, random: systemRandom });
  const records: BookRecord[] = [];
  try {
    const collected = await collectBooks(
      {
        ...{ upstream, clock, runId: 'run', concurrency: 4, futureSkewMs: 60_000 },
        signal: (stop ?? new AbortController()).signal,
        append: async (record) => void records.push(record),
        drain: async () => {},
        onAnswer: () => stop?.abort(new Error('stopped')),
        onSymbol() {},
      },
      names,
    );
    return { collected, records, requests: upstream.counters().requests };
  } finally {
    await upstream.close();
    await box.stop();
  }
}

describe('polling order books', () => {
  test('stops after the first few where the service refuses every symbol alike', async () => {
    const { collected, requests } = await polled({ bookShapes: [] });
    expect(collected).toMatchObject({ done: [], refused: expect.stringMatching(/^answered 404/), stopped: null });
    expect(requests).toBeLessThan(30);
  });

  test('stops where the service has failed for every symbol for more than ten minutes', async () => {
    const broken = createServer((_, response) => response.writeHead(503).end());
    await new Promise<void>((resolve) => broken.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void broken.close());
    const url = `http://127.0.0.1:${(broken.address() as AddressInfo).port}`;
    const begunMs = systemClock.monotonicMs();
    // Each look at the clock is some seconds after the one before: it takes thirty of them after the twentieth failure.
    let looks = 0;
    const slow = { ...systemClock, monotonicMs: () => begunMs + 20_000 * looks++ };
    const { collected, requests } = await polled({}, symbols, url, undefined, slow);
    expect(collected).toMatchObject({ done: [], refused: expect.stringMatching(/^answered 503/), stopped: null });
    expect(looks).toBeGreaterThan(30);
    expect(requests).toBeLessThan(2 * 60);
    const quick = await polled({}, symbols, url);
    expect(quick.collected).toMatchObject({ done: [], refused: null, stopped: null });
    expect(quick.collected.failures).toHaveLength(symbols.length);
  });

  test('stops where nobody answers, after trying one symbol alone', async () => {
    const { collected, requests } = await polled({}, symbols, 'http://127.0.0.1:9');
    expect(collected.stopped).toMatchObject({ failure: 'unreachable' });
    expect(collected.done).toEqual([]);
    expect(requests).toBeLessThanOrEqual(2 * 5);
  });

  test('stops at once where the key is refused', async () => {
    const { collected, requests } = await polled({ forbidden: true });
    expect(collected.stopped).toMatchObject({ failure: 'credential' });
    expect(requests).toBeLessThanOrEqual(4);
  });

  test('returns what was had when it is stopped', async () => {
    const stop = new AbortController();
    const known = await knownSymbols();
    const { collected, records } = await polled({ seed: 3, latencyMs: 5 }, known, undefined, stop);
    expect(records.length).toBeGreaterThan(0);
    expect(collected.done.length).toBe(records.length);
    expect(collected.done.length).toBeLessThan(known.length);
    expect(collected.failures).toEqual([]);
  });

  test('a book without a time is of the moment it was asked for, not of its arrival', async () => {
    const [symbol] = await knownSymbols();
    const before = Date.now();
    const { records } = await polled({ seed: 3, bookShapes: ['no-time'], latencyMs: 60 }, [symbol!]);
    expect(records).toHaveLength(1);
    const { observedAt, snapshots } = records[0]!;
    expect(snapshots.map(({ t }) => t)).toEqual([observedAt]);
    expect(observedAt - before).toBeLessThan(Date.now() - before - 50);
  });
});

test('the first symbols asked for come from all over the list, and each is asked for once', () => {
  const spread = spreadFirst(symbols, 20);
  expect(spread.slice(0, 20).map((symbol) => Number(symbol.slice(1)))).toEqual(
    Array.from({ length: 20 }, (_, i) => i * 3),
  );
  expect([...spread].sort()).toEqual([...symbols].sort());
  expect(spreadFirst(['A', 'B'], 20)).toEqual(['A', 'B']);
});

/** Symbols of the sandbox with seed 3. */
async function knownSymbols(): Promise<string[]> {
  const box = await startSandbox({ markets: 5, seed: 3 }, { clock: systemClock });
  try {
    const answer = await fetch(`${box.url}/api/v1/markets`, { headers: { authorization: 'Bearer sandbox-key' } });
    const { markets } = (await answer.json()) as {
      markets: { symbol?: string; ticker?: string; venues?: { ticker: string }[] }[];
    };
    return markets.flatMap(
      ({ symbol, ticker, venues }) => symbol ?? ticker ?? venues?.map((venue) => venue.ticker) ?? [],
    );
  } finally {
    await box.stop();
  }
}
