import { globSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createBodyCompressor } from '../../src/server/http/compress-response.ts';
import { createFairSemaphore } from '../../src/server/http/fair-semaphore.ts';
import { createSharedWork, openResponseCache } from '../../src/server/http/response-cache.ts';
import { repairNow } from '../archive/damaged.ts';
import { answer, append, day0, dayMs, hourMs, now, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { share } from '../harness/share.ts';
import { askCoded, codingNames } from './coded.ts';
import { answerOf, lake, marketsOn, poll, symbols } from './historical-archive.ts';
import { type Serving, serving } from './serving.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`page cache: SEED=${seed}`);

const base = '/api/v1/historical';
const pages = ['markets', 'ticks', 'orderbooks', 'quotes', 'trades', 'candles?interval=4h', 'coverage'].map(
  (route) => `${base}/${route}`,
);
const uncached = ['service.cache_bytes_max=0'];

/** The counters of the response cache. */
async function countsOf({ ask }: Serving) {
  const text = await (await ask('/metrics')).text();
  const value = (name: string): number =>
    Number(new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
  const count = (result: string) => value(`oddslake_response_cache_requests_total{result="${result}"}`);
  return {
    hit: count('hit'),
    miss: count('miss'),
    shared: count('shared'),
    notModified: count('not_modified'),
    bytes: value('oddslake_response_cache_bytes'),
  };
}

/** A publish that changes every dataset. */
async function publishMore(archive: Awaited<ReturnType<typeof lake>>): Promise<void> {
  poll(archive, day0 + 2 * dayMs + 2 * hourMs, marketsOn(2));
  append(archive, answerOf('AAA', 3));
  await publishNow(archive);
}

describe('the ETag of a page', () => {
  test('gives 304 without a read, until the next generation', async () => {
    const archive = await lake();
    const service = await serving(archive);
    for (const path of pages) {
      const first = await askCoded(service, path);
      const { etag } = first.headers;
      expect(etag, path).toMatch(/^"[\w-]+"$/);
      expect(first.headers['cache-control']).toBe('private, no-cache');
      const before = await countsOf(service);
      for (const [method, list] of [
        ['GET', etag!],
        ['GET', `W/${etag}`],
        ['GET', `"other", ${etag}`],
        ['GET', '*'],
        ['HEAD', etag!],
      ] as const) {
        const again = await askCoded(service, path, { 'if-none-match': list }, method);
        expect([again.status, again.body.length, again.headers.etag], `${path} ${list}`).toEqual([304, 0, etag]);
        for (const name of ['vary', 'cache-control', 'oddslake-generation'])
          expect(again.headers[name], `${path} ${name}`).toBe(first.headers[name]);
        expect(again.headers['content-type']).toBeUndefined();
      }
      expect((await countsOf(service)).notModified - before.notModified).toBe(5);
      expect((await countsOf(service)).miss).toBe(before.miss);
      expect((await askCoded(service, path, { 'if-none-match': '"other"' })).status).toBe(200);
      expect((await askCoded(service, path, { 'if-match': etag! })).status).toBe(200);
      expect((await askCoded(service, path, { 'if-match': '"other"' })).status).toBe(412);
    }
    const etags = await Promise.all(pages.map(async (path) => (await askCoded(service, path)).headers.etag!));
    expect(new Set(etags).size).toBe(pages.length);
    await publishMore(archive);
    for (const [i, path] of pages.entries()) {
      const after = await askCoded(service, path, { 'if-none-match': etags[i]! });
      expect([after.status, after.headers['oddslake-generation']], path).toEqual([200, '2']);
      expect(after.headers.etag, path).not.toBe(etags[i]);
      expect(JSON.parse(after.text), path).toMatchObject({ generation: 2 });
    }
  });

  test('differs between codings and queries, and is the same after a restart', async () => {
    const root = scratchFolder();
    const first = await serving(await lake(root));
    const path = `${base}/ticks`;
    const etags = new Map<string, string>();
    for (const coding of ['identity', ...codingNames]) {
      const { headers } = await askCoded(first, path, { 'accept-encoding': coding });
      etags.set(coding, headers.etag!);
    }
    for (const query of ['limit=3', 'limit=4', 'symbol=AAA', `from=${day0}`, `to=${day0 + dayMs}`])
      etags.set(query, (await askCoded(first, `${path}?${query}`)).headers.etag!);
    expect(new Set(etags.values()).size).toBe(9);
    // The same query in another order and form.
    const ordered = await askCoded(first, `${path}?symbol=AAA&limit=2&format=json`);
    expect((await askCoded(first, `${path}?limit=2&symbol=%41AA`)).headers.etag).toBe(ordered.headers.etag);
    // A client that accepts br has no use for the ETag of gzip.
    const other = { 'accept-encoding': 'br', 'if-none-match': etags.get('gzip')! };
    expect((await askCoded(first, path, other)).status).toBe(200);
    await first.stop();
    const second = await serving(opened({ root }));
    for (const coding of ['identity', ...codingNames]) {
      const headers = { 'accept-encoding': coding, 'if-none-match': etags.get(coding)! };
      const { status, headers: sent } = await askCoded(second, path, headers);
      expect([status, sent.etag], coding).toEqual([304, etags.get(coding)]);
    }
    // Other limits may change the page.
    const limited = await serving(opened({ root }), { set: ['service.ticks_limit_max=2'] });
    expect((await askCoded(limited, path, { 'if-none-match': etags.get('identity')! })).status).toBe(200);
  });

  test('stays after a repair that restores the bytes, and changes with one that loses rows', async () => {
    const root = scratchFolder();
    const archive = await lake(root);
    const service = await serving(archive);
    const path = `${base}/ticks`;
    const { headers, text } = await askCoded(service, path);
    const [file, other] = globSync('ticks/date=*/*.parquet', { cwd: root }).sort();
    renameSync(join(root, file!), join(root, 'ticks/moved.parquet'));
    expect((await repairNow(archive)).repaired).toContainEqual(expect.objectContaining({ outcome: 'restored' }));
    const restarted = await serving(opened({ root }));
    for (const one of [service, restarted])
      expect((await askCoded(one, path, { 'if-none-match': headers.etag! })).status).toBe(304);
    expect((await askCoded(restarted, path)).text).toBe(text);
    writeFileSync(join(root, other!), 'damage');
    const { generation, lost } = await repairNow(archive);
    expect([generation, lost.length > 0]).toEqual([2, true]);
    for (const one of [service, restarted]) {
      const after = await askCoded(one, path, { 'if-none-match': headers.etag! });
      expect([after.status, JSON.parse(after.text).generation]).toEqual([200, 2]);
      expect(JSON.parse(after.text).count).toBeLessThan(JSON.parse(text).count);
    }
  });

  test('is missing where the page depends on the time of the request', async () => {
    const service = await serving(await lake());
    for (const path of [`${base}/coverage?symbol=AAA`, `${base}/coverage?symbol=AAA&dataset=ticks`]) {
      const { status, headers, text } = await askCoded(service, path, { 'if-none-match': '*' });
      expect([status, headers.etag, headers['cache-control']]).toEqual([200, undefined, 'no-store']);
      expect(JSON.parse(text)).toMatchObject({ generated_at: now, gaps_count: expect.any(Number) });
    }
    const books = await askCoded(service, `${base}/coverage?symbol=AAA&dataset=orderbooks`);
    expect(books.headers.etag).toMatch(/^"/);
    // An empty archive has no time of publication.
    const empty = await serving(opened());
    const { headers, text } = await askCoded(empty, `${base}/ticks`);
    expect([headers.etag, JSON.parse(text).generated_at]).toEqual([undefined, now]);
  });

  test('an invalid request is rejected whatever its conditions', async () => {
    const service = await serving(await lake());
    for (const [query, status] of [
      ['symbol=nothing', 404],
      ['cursor=x', 400],
      ['limit=x', 400],
    ] as const)
      for (const headers of [{ 'if-none-match': '*' }, { 'if-none-match': '"x"' }, { 'if-match': '"x"' }])
        expect((await askCoded(service, `${base}/ticks?${query}`, headers)).status, query).toBe(status);
  });
});

test('a cached page is the same as one that is read, byte for byte', async () => {
  const root = scratchFolder();
  const archive = await lake(root);
  const [cached, read] = [await serving(archive), await serving(opened({ root }), { set: uncached })];
  const time = fc.integer({ min: day0 - hourMs, max: day0 + 4 * dayMs });
  const optional = (name: string, values: fc.Arbitrary<unknown>) =>
    fc.option(
      values.map((value) => `${name}=${encodeURIComponent(String(value))}`),
      { nil: null },
    );
  const symbol = optional('symbol', fc.constantFrom(...symbols));
  const common = [
    symbol,
    optional('from', time),
    optional('to', time),
    optional('limit', fc.integer({ min: 1, max: 40 })),
  ];
  const queryOf = (...more: fc.Arbitrary<string | null>[]) =>
    fc.tuple(...common, ...more).map((parts) => parts.filter((part) => part !== null).join('&'));
  const interval = fc.constantFrom('1m', '15m', '1h', '4h', '1d', '1w').map((value) => `interval=${value}`);
  const path = fc.oneof(
    queryOf().map((query) => `ticks?${query}`),
    queryOf().map((query) => `orderbooks?${query}`),
    queryOf().map((query) => `quotes?${query}`),
    queryOf().map((query) => `trades?${query}`),
    queryOf(interval).map((query) => `candles?${query}`),
    queryOf(optional('dataset', fc.constantFrom('ticks', 'orderbooks', 'quotes', 'trades'))).map(
      (query) => `coverage?${query}`,
    ),
    queryOf(optional('q', fc.constantFrom('rise', 'AAA', 'nothing')), optional('resolved', fc.boolean())).map(
      (query) => `markets?${query}`,
    ),
  );
  const coding = fc.constantFrom('identity', ...codingNames);
  await fc.assert(
    fc.asyncProperty(path, fc.array(coding, { minLength: 1, maxLength: 3 }), async (drawn, accepted) => {
      let target = `${base}/${drawn}`;
      for (let page = 0; page < 3; page++) {
        const wanted = await askCoded(read, target);
        for (const one of [...accepted, accepted[0]!]) {
          const got = await askCoded(cached, target, { 'accept-encoding': one });
          expect([got.status, got.text], `${target} ${one}`).toEqual([wanted.status, wanted.text]);
          const [tag] = /^"[\w-]{24}/.exec(got.headers.etag ?? '') ?? [];
          expect(tag).toBe(wanted.headers.etag?.slice(0, -1));
        }
        const { next_cursor: next } = JSON.parse(wanted.text) as { next_cursor?: string | null };
        if (next == null) break;
        target = `${target.replace(/&cursor=.*/, '')}&cursor=${next}`;
      }
    }),
    { seed, numRuns: Math.max(10, Math.ceil(200 * share)) },
  );
  const { hit, miss } = await countsOf(cached);
  expect(hit).toBeGreaterThan(miss / 2);
  expect((await countsOf(read)).hit).toBe(0);
});

test('the cache keeps to its share of the memory', async () => {
  const bytesMax = 32 * 1024;
  const service = await serving(await lake(), { set: [`service.cache_bytes_max=${bytesMax}`] });
  let most = 0;
  for (let limit = 1; limit <= 12; limit++) {
    for (const path of pages)
      await askCoded(service, `${path}${path.includes('?') ? '&' : '?'}limit=${limit}`, { 'accept-encoding': 'gzip' });
    const { bytes } = await countsOf(service);
    expect(bytes).toBeLessThanOrEqual(bytesMax / 4);
    most = Math.max(most, bytes);
  }
  expect(most).toBeGreaterThan(bytesMax / 8);
});

test('concurrent equal requests read once, and a disconnect does not fail the others', async () => {
  const service = await serving(await lake(), { set: ['service.queries_concurrent_max=1'] });
  const { key: other } = await service.workspace.createKey(
    { name: 'other', expiresAt: null, requestsPerMinute: 1_000_000 },
    now,
  );
  const path = `${base}/candles?interval=15m`;
  const leaving = Array.from({ length: 5 }, () => new AbortController());
  const left = leaving.map(({ signal }) =>
    fetch(`${service.url}${path}`, { signal, headers: { authorization: `Bearer ${service.key}` } }).catch(() => null),
  );
  const answers = Array.from({ length: 100 }, (_, i) =>
    askCoded({ url: service.url, key: i % 3 === 0 ? other : service.key }, path, {
      'accept-encoding': i % 2 === 0 ? 'gzip' : 'identity',
    }),
  );
  for (const one of leaving) one.abort();
  const done = await Promise.all(answers);
  await Promise.all(left);
  expect(new Set(done.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set(done.map(({ text }) => text)).size).toBe(1);
  expect((await countsOf(service)).miss).toBe(1);
});

test('an error is not cached', async () => {
  const root = scratchFolder();
  const service = await serving(await lake(root));
  const files = globSync('ticks/date=*/*.parquet', { cwd: root }).map((path) => join(root, path));
  const before = files.map((path) => readFileSync(path));
  for (const path of files) writeFileSync(path, 'damage');
  expect((await askCoded(service, `${base}/ticks`)).status).toBe(503);
  for (const [i, path] of files.entries()) writeFileSync(path, before[i]!);
  expect((await askCoded(service, `${base}/ticks`)).status).toBe(200);
});

/** A cache over bodies that are their tags, and a semaphore of one permit without a queue or with one. */
function tagCache(waitingMax: number) {
  const cache = openResponseCache(10_000, createBodyCompressor());
  const semaphore = createFairSemaphore(1, waitingMax);
  const load = (tag: string, signal = new AbortController().signal) =>
    cache.load({
      tag,
      choice: { coding: null, isRequired: false },
      signal,
      holder: 'a',
      semaphore: semaphore.forHolder('a'),
      read: async () => ({ tag, generation: 1, body: Buffer.from(tag) }),
    });
  return { load, semaphore };
}

test('a cached body needs no permit', async () => {
  const { load, semaphore } = tagCache(0);
  await load('one');
  const release = await semaphore.acquire(new AbortController().signal);
  expect(String((await load('one')).body)).toBe('one');
  await expect(load('two')).rejects.toThrow('Too many queries');
  release();
  expect(String((await load('two')).body)).toBe('two');
});

test('equal requests wait for one permit, and leave the queue when all their clients have disconnected', async () => {
  const { load, semaphore } = tagCache(1);
  const release = await semaphore.acquire(new AbortController().signal);
  const [first, second] = [new AbortController(), new AbortController()];
  const both = Promise.allSettled([load('one', first.signal), load('one', second.signal)]);
  expect(semaphore.getCounts().waiting).toBe(1);
  first.abort();
  expect(semaphore.getCounts().waiting).toBe(1);
  second.abort();
  expect(semaphore.getCounts().waiting).toBe(0);
  expect((await both).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  release();
  expect(String((await load('one')).body)).toBe('one');
});

describe('shared work', () => {
  const never = new AbortController().signal;

  test('runs once for concurrent callers, and again for later ones', async () => {
    const run = createSharedWork<number>();
    let runs = 0;
    const work = async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return ++runs;
    };
    expect(await Promise.all([run('a', never, work), run('a', never, work), run('b', never, work)])).toEqual([1, 1, 2]);
    expect(await run('a', never, work)).toBe(3);
  });

  test('passes an error to all callers and forgets it', async () => {
    const run = createSharedWork<number>();
    const fail = () => Promise.reject(new Error('no'));
    const both = await Promise.allSettled([run('a', never, fail), run('a', never, async () => 1)]);
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(await run('a', never, async () => 2)).toBe(2);
  });

  test('continues while one caller is left, and is aborted with the last', async () => {
    const run = createSharedWork<string>();
    const [first, second] = [new AbortController(), new AbortController()];
    const end = Promise.withResolvers<string>();
    let seen: AbortSignal | undefined;
    const work = (signal: AbortSignal) => {
      seen = signal;
      return end.promise;
    };
    const one = run('a', first.signal, work);
    const two = run('a', second.signal, work);
    first.abort(new Error('left'));
    await expect(one).rejects.toThrow('left');
    expect(seen!.aborted).toBe(false);
    second.abort(new Error('left, too'));
    await expect(two).rejects.toThrow('left, too');
    expect(seen!.aborted).toBe(true);
    // A later caller does not get the aborted result.
    const later = run('a', never, async () => 'new');
    end.reject(new Error('aborted'));
    expect(await later).toBe('new');
    await expect(run('a', first.signal, work)).rejects.toThrow('left');
  });
});

test('many different pages of one key are read at a time after a publish, none is refused', async () => {
  const days = Array.from({ length: 40 }, (_, day) => day0 + day * dayMs);
  const archive = opened();
  append(archive, ...days.map((day) => answer('AAA', [[day, 0.5]])));
  await publishNow(archive, days.at(-1)! + dayMs);
  const service = await serving(archive);
  const statuses = await Promise.all(
    Array.from({ length: 200 }, async (_, i) => (await service.ask(`${base}/ticks?symbol=AAA&limit=${i + 1}`)).status),
  );
  expect(new Set(statuses)).toEqual(new Set([200]));
});
