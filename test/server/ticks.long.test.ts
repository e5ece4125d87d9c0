import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { Value } from 'typebox/value';
import { expect, test } from 'vitest';
import { decodeTickPage } from '../../src/client/decode.ts';
import { TicksResponse } from '../../src/contract/schemas.ts';
import { createTickSerializer } from '../../src/server/live/ticks-route.ts';
import { fetched, hours, withLosses } from '../archive/losses.ts';
import { answer, append, day0, dayMs, now, opened, type Pairs, publishNow, scratchFolder } from '../archive/scratch.ts';
import { type Serving, type ServingOptions, serving, sharedServing } from './serving.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`service ticks: SEED=${seed}`);

/** Three published ticks around midnight and two later journaled ones; covered from the first to the last. */
const pairs: Pairs = [
  [day0 + dayMs - 2, 0.25],
  [day0 + dayMs - 1, 0.5],
  [day0 + dayMs, 0.1],
  [day0 + dayMs + 5, 1e-7],
  [day0 + dayMs + 9, 0.75],
];
const [start, end] = [pairs[0]![0], pairs.at(-1)![0] + 1];
const items = pairs.map(([t, p]) => ({ t, p }));

async function served(options: ServingOptions = {}): Promise<Serving> {
  const archive = opened();
  append(archive, answer('A/B ?', pairs.slice(0, 3)));
  await publishNow(archive);
  append(archive, answer('A/B ?', pairs.slice(3), { windows: [{ from: pairs[2]![0], to: end }] }));
  return serving(archive, options);
}

const path = (query: Record<string, string | number> = {}): string =>
  `/api/v1/ticks?${new URLSearchParams({ symbol: 'A/B ?', ...query } as Record<string, string>)}`;

/** A service over an empty archive. */
const empty = sharedServing();

test('returns published and journaled ticks of a window in ascending order', async () => {
  const { json } = await served();
  const { status, headers, body } = await json(path({ from: start, to: end }));
  expect([status, headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8']);
  expect(body).toEqual({
    symbol: 'A/B ?',
    ticks: items,
    count: 5,
    from: start,
    to: end,
    generated_at: now,
    data_time: end,
  });
  expect(Value.Check(TicksResponse, body)).toBe(true);
});

test('windows are half-open, and gaps are their uncovered parts', async () => {
  const { json } = await served();
  const { body } = await json(path({ from: start + 1, to: end - 1 }));
  expect(body).toMatchObject({ ticks: items.slice(1, 4), count: 3, from: start + 1, to: end - 1 });
  expect(body).not.toHaveProperty('gaps');
  const wide = await json(path({ from: start - 10, to: end + 10 }));
  expect(wide.body).toMatchObject({ count: 5, from: start - 10, to: end + 10 });
  expect(wide.body.gaps).toEqual([
    { from: start - 10, to: start },
    { from: end, to: end + 10 },
  ]);
  const before = await json(path({ from: 0, to: 1 }));
  expect(before.body).toMatchObject({ ticks: [], count: 0, from: 0, to: 1, gaps: [{ from: 0, to: 1 }] });
});

test('marks a gap with lost ticks, even if a journaled response covers it', async () => {
  const archive = opened();
  await withLosses(archive, 'A', [hours(6, 8)]);
  const { json, ask } = await serving(archive);
  const query = `/api/v1/ticks?${new URLSearchParams({ symbol: 'A', from: `${hours(4, 5).from}`, to: `${hours(24, 25).to}` })}`;
  const gaps = [{ ...hours(6, 8), reason: 'lost' }, hours(24, 25)];
  const { body } = await json(query);
  expect(body.gaps).toEqual(gaps);
  expect(Value.Check(TicksResponse, body)).toBe(true);
  append(
    archive,
    fetched('A', hours(5, 9), () => false),
  );
  expect((await json(query)).body.gaps).toEqual(gaps);
  // The collector handles them like other gaps.
  const page = decodeTickPage(new Uint8Array(await (await ask(query)).arrayBuffer()));
  expect(page.gaps).toEqual([hours(6, 8), hours(24, 25)]);
  const coverage = await json('/api/v1/historical/coverage?dataset=ticks&symbol=A');
  expect(coverage.body).toMatchObject({
    gaps: [{ symbol: 'A', ...hours(6, 8), reason: 'lost', ticks: 12 }],
    gaps_count: 1,
  });
});

test('the limit truncates after the last tick with from, and before the first without', async () => {
  const { json } = await served();
  const first = await json(path({ from: start, limit: 2 }));
  expect(first.body).toMatchObject({ ticks: items.slice(0, 2), count: 2, from: start, to: start + 2 });
  const next = await json(path({ from: start + 2, limit: 2 }));
  expect(next.body).toMatchObject({ ticks: items.slice(2, 4), from: start + 2, to: pairs[3]![0] + 1 });
  const last = await json(path({ from: pairs[3]![0] + 1, limit: 2 }));
  expect(last.body).toMatchObject({ ticks: items.slice(4), to: now, gaps: [{ from: end, to: now }] });
  const latest = await json(path({ limit: 2 }));
  expect(latest.body).toMatchObject({ ticks: items.slice(3), from: pairs[3]![0], to: now });
  const earlier = await json(path({ limit: 2, to: pairs[3]![0] }));
  expect(earlier.body).toMatchObject({ ticks: items.slice(1, 3), from: start + 1, to: pairs[3]![0] });
  const rest = await json(path({ limit: 2, to: start + 1 }));
  expect(rest.body).toMatchObject({ ticks: items.slice(0, 1), from: start, to: start + 1 });
});

test('does not truncate if the number of ticks equals the limit', async () => {
  const { json } = await served();
  expect((await json(path({ from: start, limit: 5 }))).body).toMatchObject({ count: 5, from: start, to: now });
  expect((await json(path({ limit: 5 }))).body).toMatchObject({ count: 5, from: start, to: now });
});

test('service.ticks_limit_max bounds the limit, and the default limit', async () => {
  const { json } = await served({ set: ['service.ticks_limit_max=3'] });
  for (const query of [{ limit: 1_000_000 }, { limit: 3 }, {}])
    expect((await json(path({ from: start, ...query }))).body).toMatchObject({ count: 3, to: pairs[2]![0] + 1 });
});

test('the default limit is a thousand', async () => {
  const archive = opened();
  append(
    archive,
    answer(
      'M',
      Array.from({ length: 1200 }, (_, i) => [day0 + i, i / 1000] as const),
    ),
  );
  const { json } = await serving(archive);
  const { body } = await json('/api/v1/ticks?symbol=M');
  expect(body).toMatchObject({ count: 1000, from: day0 + 200, to: now });
  expect((await json('/api/v1/ticks?symbol=M&limit=1100')).body).toMatchObject({ count: 1100 });
});

test('the window ends at the current time', async () => {
  const { json } = await served();
  expect((await json(path({ from: start, to: now + 5 }))).body).toMatchObject({ from: start, to: now });
  const future = await json(path({ from: now + 5, to: now + 9 }));
  expect(future.body).toEqual({
    symbol: 'A/B ?',
    ticks: [],
    count: 0,
    from: now + 5,
    to: now + 5,
    generated_at: now,
    data_time: null,
  });
});

test('an error says what is expected of a parameter', async () => {
  const { json } = empty();
  const reasonsOf = async (query: string) => (await json(`/api/v1/ticks?${query}`)).body.errors;
  expect(await reasonsOf('from=0')).toEqual([{ name: 'symbol', reason: 'is missing' }]);
  expect(await reasonsOf('symbol=A&from=2026-11-20')).toEqual([
    { name: 'from', reason: 'must be a whole number, epoch milliseconds' },
  ]);
  expect(await reasonsOf('symbol=A&limit=many')).toEqual([{ name: 'limit', reason: 'must be a whole number' }]);
});

test('an unknown symbol gives 404, one without ticks does not', async () => {
  const archive = opened();
  append(archive, answer('EMPTY', [], { windows: [{ from: day0, to: day0 + 1 }] }));
  const { json } = await serving(archive);
  const unknown = await json('/api/v1/ticks?symbol=NONE');
  expect([unknown.status, unknown.body.errors]).toEqual([404, [{ name: 'symbol', reason: 'is unknown' }]]);
  const empty = await json('/api/v1/ticks?symbol=EMPTY');
  expect(empty.body).toMatchObject({ ticks: [], from: day0, to: now, gaps: [{ from: day0 + 1, to: now }] });
});

test.each([
  ['', 'symbol'],
  ['symbol=', 'symbol'],
  ['symbol=A&symbol=B', 'symbol'],
  ['symbol=A&from=x', 'from'],
  ['symbol=A&from=', 'from'],
  ['symbol=A&from=-1', 'from'],
  ['symbol=A&from=1.5', 'from'],
  ['symbol=A&from=1e3', 'from'],
  ['symbol=A&from=1&from=2', 'from'],
  ['symbol=A&from=99999999999999999', 'from'],
  ['symbol=A&to=2026-06-01', 'to'],
  ['symbol=A&to=-1', 'to'],
  ['symbol=A&limit=0', 'limit'],
  ['symbol=A&limit=-5', 'limit'],
  ['symbol=A&limit=1.5', 'limit'],
  ['symbol=A&limit=ten', 'limit'],
  ['symbol=A&from=5&to=5', 'from'],
  ['symbol=A&from=6&to=5', 'from'],
  ['symbol=A&form=5', 'form'],
])('rejects the invalid query ?%s', async (query, name) => {
  const { json } = empty();
  const { status, headers, body } = await json<{ errors: { name: string }[] }>(`/api/v1/ticks?${query}`);
  expect(status).toBe(400);
  expect(headers.get('content-type')).toContain('application/problem+json');
  expect(body.errors.map((error) => error.name)).toContain(name);
});

test('requires a key for ticks', async () => {
  const { json } = await served();
  expect((await json(path(), { headers: { authorization: '' } })).status).toBe(401);
});

test('gives 503 for a damaged part', async () => {
  const root = scratchFolder();
  const archive = opened({ root, parts: 1 });
  append(archive, answer('A', pairs));
  const { manifest } = await publishNow(archive);
  const file = join(root, manifest.datasets.ticks.files[0]!.path);
  const bytes = readFileSync(file);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(file, bytes);
  const { json } = await serving(archive);
  expect((await json(`/api/v1/ticks?symbol=A&from=${start}`)).status).toBe(503);
});

test.each([
  [200, []],
  [503, ['service.cache_bytes_max=0']],
])('caches decoded ticks unless service.cache_bytes_max is 0: %i after damage', async (status, set) => {
  const root = scratchFolder();
  const archive = opened({ root, parts: 1 });
  append(archive, answer('A', [[day0, 1]]));
  const { manifest } = await publishNow(archive);
  const { json } = await serving(archive, { set });
  expect((await json('/api/v1/ticks?symbol=A')).body).toMatchObject({ count: 1 });
  writeFileSync(join(root, manifest.datasets.ticks.files[0]!.path), 'damage');
  expect((await json('/api/v1/ticks?symbol=A')).status).toBe(status);
});

test('the collector can decode the response', async () => {
  const { ask } = await served();
  const bytes = new Uint8Array(await (await ask(path({ from: start - 1, to: end }))).arrayBuffer());
  const page = decodeTickPage(bytes);
  expect([...page.t]).toEqual(pairs.map(([t]) => t));
  expect([...page.p]).toEqual(pairs.map(([, p]) => p));
  expect(page).toMatchObject({ from: start - 1, to: end, generatedAt: now, gaps: [{ from: start - 1, to: start }] });
});

test('the next response has the writes of another process', async () => {
  const root = scratchFolder();
  const [writer, reader] = [opened({ root }), opened({ root })];
  append(writer, answer('A', [[day0, 1]], { observedAt: now }));
  const { json } = await serving(reader);
  const prices = async () =>
    (await json<{ ticks: { p: number }[] }>('/api/v1/ticks?symbol=A')).body.ticks.map(({ p }) => p);
  expect(await prices()).toEqual([1]);
  append(writer, answer('A', [[day0 + 1, 2]], { observedAt: now }));
  expect(await prices()).toEqual([1, 2]);
  await publishNow(writer);
  expect(await prices()).toEqual([1, 2]);
  append(writer, answer('A', [[day0, 3]], { observedAt: now + 1 }));
  expect(await prices()).toEqual([3, 2]);
});

test('two hundred concurrent clients get the same response', async () => {
  const { ask } = await served();
  const texts = await Promise.all(
    Array.from({ length: 200 }, async () => (await ask(path({ from: start, to: end }))).text()),
  );
  expect(new Set(texts).size).toBe(1);
  expect(JSON.parse(texts[0]!)).toMatchObject({ count: 5 });
});

test('serializes ticks like JSON.stringify', () => {
  const price = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom(0, -0, 0.1, 1, 5e-324));
  const tick = fc.tuple(fc.oneof(fc.integer({ min: 0, max: 4_102_444_800_000 }), fc.nat(3_000_000)), price);
  fc.assert(
    fc.property(fc.array(tick, { maxLength: 30 }), fc.nat(10), fc.constantFrom(0, 10_000), (drawn, from, bytesMax) => {
      const textOf = createTickSerializer(bytesMax);
      const [t, p] = [Float64Array.from(drawn, ([time]) => time), Float64Array.from(drawn, ([, value]) => value)];
      const slice = { key: 'x', t, p, from: Math.min(from, drawn.length), to: drawn.length };
      const wanted = JSON.stringify(drawn.slice(from).map(([time, value]) => ({ t: time, p: value })));
      for (let round = 0; round < 2; round++) expect(`[${Buffer.from(textOf(slice))}]`).toBe(wanted);
    }),
    { seed },
  );
});
