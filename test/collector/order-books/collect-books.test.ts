import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { BookRecord } from '../../../src/archive/journal/journal-books.ts';
import { UpstreamError, type UpstreamFailure } from '../../../src/base/errors.ts';
import type { Clock } from '../../../src/base/ports.ts';
import { systemClock, systemRandom } from '../../../src/base/system.ts';
import { openUpstream } from '../../../src/client/client.ts';
import {
  type BookCollectContext,
  collectBooks,
  moveSampleToFront,
  toBookRecord,
} from '../../../src/collector/order-books/collect-books.ts';
import { startSandbox } from '../../../src/sandbox/sandbox.ts';
import type { SandboxOptions } from '../../../src/sandbox/sandbox-options.ts';

const symbols = Array.from({ length: 60 }, (_, i) => `S${i}`);

/** Polls with real requests. `baseUrl` replaces the sandbox if no server should respond. */
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
        upstream,
        clock,
        runId: 'run',
        concurrency: 4,
        futureSkewMs: 60_000,
        signal: (stop ?? new AbortController()).signal,
        append: async (record) => void records.push(record),
        drain: async () => {},
        onResponse: () => stop?.abort(new Error('stopped')),
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
  test('stops after a sample if the service refuses every symbol', async () => {
    const { collected, requests } = await polled({ bookShapes: [] });
    expect(collected).toMatchObject({
      done: [],
      refusedReason: expect.stringMatching(/^HTTP 404/),
      stopError: null,
    });
    expect(requests).toBeLessThan(30);
  });

  test('stops if the service fails for every symbol for more than ten minutes', async () => {
    const broken = createServer((_, response) => response.writeHead(503).end());
    await new Promise<void>((resolve) => broken.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void broken.close());
    const url = `http://127.0.0.1:${(broken.address() as AddressInfo).port}`;
    const begunMs = systemClock.monotonicMs();
    // The clock advances by seconds per read: thirty reads are due after the twentieth failure.
    let looks = 0;
    const slow = { ...systemClock, monotonicMs: () => begunMs + 20_000 * looks++ };
    const { collected, requests } = await polled({}, symbols, url, undefined, slow);
    expect(collected).toMatchObject({
      done: [],
      refusedReason: expect.stringMatching(/^HTTP 503/),
      stopError: null,
    });
    expect(looks).toBeGreaterThan(30);
    expect(requests).toBeLessThan(2 * 60);
    const quick = await polled({}, symbols, url);
    expect(quick.collected).toMatchObject({ done: [], refusedReason: null, stopError: null });
    expect(quick.collected.failures).toHaveLength(symbols.length);
  });

  test('stops if the service is unreachable, after one symbol alone', async () => {
    const { collected, requests } = await polled({}, symbols, 'http://127.0.0.1:9');
    expect(collected.stopError).toMatchObject({ failure: 'unreachable' });
    expect(collected.done).toEqual([]);
    expect(requests).toBeLessThanOrEqual(2 * 5);
  });

  test('stops immediately if the key is refused', async () => {
    const { collected, requests } = await polled({ forbidden: true });
    expect(collected.stopError).toMatchObject({ failure: 'credential' });
    expect(requests).toBeLessThanOrEqual(4);
  });

  test('returns what is done so far when it is aborted', async () => {
    const stop = new AbortController();
    const known = await knownSymbols();
    const { collected, records } = await polled({ seed: 3, latencyMs: 5 }, known, undefined, stop);
    expect(records.length).toBeGreaterThan(0);
    expect(collected.done.length).toBe(records.length);
    expect(collected.done.length).toBeLessThan(known.length);
    expect(collected.failures).toEqual([]);
  });

  test('dates a book without a time by the request, not by its arrival', async () => {
    const [symbol] = await knownSymbols();
    const before = Date.now();
    const { records } = await polled({ seed: 3, bookShapes: ['no-time'], latencyMs: 60 }, [symbol!]);
    expect(records).toHaveLength(1);
    const { observedAt, snapshots } = records[0]!;
    expect(snapshots.map(({ t }) => t)).toEqual([observedAt]);
    expect(observedAt - before).toBeLessThan(Date.now() - before - 50);
  });
});

test('the first symbols are spread over the list, and each is requested once', () => {
  const spread = moveSampleToFront(symbols, 20);
  expect(spread.slice(0, 20).map((symbol) => Number(symbol.slice(1)))).toEqual(
    Array.from({ length: 20 }, (_, i) => i * 3),
  );
  expect([...spread].sort()).toEqual([...symbols].sort());
  expect(moveSampleToFront(['A', 'B'], 20)).toEqual(['A', 'B']);
});

/** Symbols of the sandbox with seed 3. */
async function knownSymbols(): Promise<string[]> {
  const box = await startSandbox({ markets: 5, seed: 3 }, { clock: systemClock });
  try {
    const response = await fetch(`${box.url}/api/v1/markets`, { headers: { authorization: 'Bearer sandbox-key' } });
    const { markets } = (await response.json()) as {
      markets: { symbol?: string; ticker?: string; venues?: { ticker: string }[] }[];
    };
    return markets.flatMap(
      ({ symbol, ticker, venues }) => symbol ?? ticker ?? venues?.map((venue) => venue.ticker) ?? [],
    );
  } finally {
    await box.stop();
  }
}

describe('order books from scripted responses', () => {
  const nowMs = Date.UTC(2026, 6, 1, 12);
  const clock: Clock = { nowMs: () => nowMs, monotonicMs: () => nowMs, sleep: async () => {} };
  const failure = (kind: UpstreamFailure, reason: string, status?: number): UpstreamError =>
    new UpstreamError('order book', { failure: kind, reason, ...(status === undefined ? {} : { status }) });
  const fullBook = { bids: [[0.4, 1]], asks: [] };

  async function collected(
    names: readonly string[],
    response: (symbol: string, nth: number) => object | Promise<object>,
    rest: Partial<BookCollectContext> = {},
  ) {
    const records: BookRecord[] = [];
    const progress: number[] = [];
    const log: string[] = [];
    const context: BookCollectContext = {
      upstream: {
        async orderbook({ symbol, askedAt }) {
          const nth = log.push(symbol);
          expect(askedAt).toBe(nowMs);
          await Promise.resolve();
          const body = await response(symbol, nth);
          return { body, text: JSON.stringify(body), generatedAt: null };
        },
      },
      clock,
      runId: 'run',
      concurrency: 1,
      futureSkewMs: 60_000,
      signal: new AbortController().signal,
      append: async (record) => void records.push(record),
      drain: async () => void log.push('drained'),
      onResponse: () => void log.push('answered'),
      onSymbol: (done) => void progress.push(done),
      ...rest,
    };
    return { ...(await collectBooks(context, names)), records, reported: progress, log };
  }

  test('are counted as kept, empty, quarantined, missing and failed', async () => {
    const bodies: Record<string, object> = { A: fullBook, B: { bids: [], asks: [] }, C: { bids: [[42, 1]], asks: [] } };
    const done = await collected(['A', 'B', 'C', 'D', 'E', 'F'], (symbol) => {
      if (symbol === 'D') throw failure('refused', 'HTTP 404', 404);
      if (symbol === 'E') throw failure('refused', 'HTTP 410', 410);
      return bodies[symbol] ?? Promise.reject(failure('transient', 'HTTP 500', 500));
    });
    expect(done).toMatchObject({
      done: ['A', 'B', 'C'],
      snapshots: 2,
      empty: 1,
      stopError: null,
      refusedReason: null,
      quarantineReasons: ['order book: price 42 is outside 0 to 1'],
      missing: [
        { symbol: 'D', at: nowMs, reason: 'HTTP 404' },
        { symbol: 'E', at: nowMs, reason: 'HTTP 410' },
      ],
      failures: [{ symbol: 'F', at: nowMs, reason: 'HTTP 500' }],
    });
    expect(done.records.map(({ symbol, runId, understood }) => [symbol, runId, understood])).toEqual([
      ['A', 'run', true],
      ['B', 'run', true],
      ['C', 'run', false],
    ]);
    expect(done.reported).toEqual([1, 2, 3, 4, 5, 6]);
    expect(done.log).toEqual(['A', 'answered', 'B', 'answered', 'C', 'answered', 'D', 'E', 'F', 'drained']);
  });

  test('are not requested after twenty refusals without a response', async () => {
    const refusing = (symbol: string) => Promise.reject(failure('refused', `no ${symbol}`, 404));
    const all = await collected(symbols, refusing);
    expect([all.log.length - 1, all.missing.length, all.refusedReason]).toEqual([
      20,
      20,
      `no ${moveSampleToFront(symbols, 20)[19]}`,
    ]);
    // Temporary failures, and refusals after a response, do not mean that all symbols are refused.
    const failing = await collected(symbols, () => Promise.reject(failure('transient', 'HTTP 500', 500)));
    expect([failing.failures.length, failing.refusedReason]).toEqual([60, null]);
    const one = await collected(symbols, (symbol, nth) => (nth === 1 ? fullBook : refusing(symbol)));
    expect([one.missing.length, one.refusedReason]).toEqual([59, null]);
    const mixed = await collected(symbols, (symbol, nth) =>
      nth <= 10 ? Promise.reject(failure('transient', 'HTTP 500', 500)) : refusing(symbol),
    );
    expect([mixed.failures.length, mixed.missing.length, mixed.refusedReason !== null]).toEqual([10, 10, true]);
  });

  test('stop only if a second symbol is unreachable too', async () => {
    const down = failure('unreachable', 'connection refused');
    const one = await collected(['A', 'B', 'C'], (symbol) => (symbol === 'B' ? Promise.reject(down) : fullBook));
    expect(one).toMatchObject({ done: ['A', 'C'], failures: [{ symbol: 'B' }], stopError: null });
    const two = await collected(['A', 'B', 'C', 'D'], (_, nth) => (nth > 1 ? Promise.reject(down) : fullBook));
    expect(two).toMatchObject({ done: ['A'], stopError: down, failures: [{ symbol: 'B' }, { symbol: 'C' }] });
    const only = await collected(['A'], () => Promise.reject(down));
    expect(only.stopError).toBe(down);
    const last = await collected(['A', 'B'], (symbol) => (symbol === 'B' ? Promise.reject(down) : fullBook));
    expect(last).toMatchObject({ done: ['A'], stopError: null });
  });

  test('stop if the credential is refused, with the first such error', async () => {
    let nth = 0;
    const refused = await collected(symbols, () => Promise.reject(failure('credential', `HTTP 401 (${++nth})`, 401)), {
      concurrency: 3,
    });
    expect([refused.stopError?.reason, nth]).toEqual(['HTTP 401 (1)', 3]);
  });

  test('throw errors that are not of the upstream, and return what is done when aborted', async () => {
    await expect(collected(['A'], () => Promise.reject(new TypeError('a fault of ours')))).rejects.toThrow('of ours');
    const stop = new AbortController();
    const stopped = await collected(
      ['A', 'B', 'C'],
      (symbol) => {
        if (symbol === 'B') stop.abort(new Error('SIGTERM'));
        stop.signal.throwIfAborted();
        return fullBook;
      },
      { signal: stop.signal },
    );
    expect(stopped).toMatchObject({ done: ['A'], failures: [], missing: [], stopError: null });
    expect(stopped.log.filter((entry) => entry.length === 1)).toEqual(['A', 'B']);
    const other = new AbortController();
    const broken = collected(
      ['A'],
      () => {
        other.abort(new Error('SIGTERM'));
        throw new Error('disk full');
      },
      { signal: other.signal },
    );
    await expect(broken).rejects.toThrow('disk full');
  });
});

test('a response with several flaws reports the first one, their number and the snapshots kept', () => {
  const t = Date.UTC(2026, 6, 1);
  const books = (...bodies: object[]) => {
    const body = { snapshots: bodies };
    return toBookRecord('S', { body, text: 'as received', generatedAt: t + 5 }, { sentAt: t, futureMs: t + 9 });
  };
  const whole = { t, bids: [[0.4, 1]], asks: [] };
  const cents = (price: number) => ({ t, bids: [[price, 1]], asks: [] });
  const flawed = (reason: string) => [{ reason: `order book: ${reason}`, raw: 'as received' }];
  expect(books(whole)).toMatchObject({ symbol: 'S', observedAt: t + 5, rejected: [], understood: true });
  expect(books()).toMatchObject({ snapshots: [], rejected: [], understood: true });
  expect(books(cents(42))).toMatchObject({ understood: false, rejected: flawed('price 42 is outside 0 to 1') });
  expect(books(cents(42), cents(43), cents(44)).rejected).toEqual(flawed('price 42 is outside 0 to 1, and 2 more'));
  expect(books(whole, cents(42))).toMatchObject({
    snapshots: [{ t }],
    understood: true,
    rejected: flawed('price 42 is outside 0 to 1; 1 snapshot kept'),
  });
});
