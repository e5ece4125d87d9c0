import { expect, test } from 'vitest';
import { createRecordedFeed, type Recording } from '../../src/sandbox/recorded-feed.ts';
import { columns, fetchMarkets, fetchPage, noon, openSandbox, sendRequest } from './sandbox-requests.ts';

const start = Date.UTC(2026, 6, 11);
const minute = (n: number) => start + n * 60_000;

const recording: Recording = {
  symbols: ['first one?', 'second&', 'silent'],
  offsets: [0, 3, 5, 5],
  t: Float64Array.of(minute(0), minute(2), minute(4), minute(1), minute(9) + 123),
  p: Float64Array.of(0.5, 0.4985, 1, 0.25, 0.3),
  markets: [
    { symbol: 'first one?', question: 'Yes?', category: 'sports', n_snaps: 3n, resolved_yes: 1n },
    { symbol: 'second&', question: 'No?', category: 'crypto', n_snaps: 2n, resolved_yes: null },
  ],
};

test('replays a recording at its own dates with all its symbols', async () => {
  const box = await openSandbox({}, { feed: createRecordedFeed(recording, { shift: 'own', nowMs: noon }) });
  const { ticks } = await fetchPage(box, { symbol: 'first one?', from: start, to: minute(10) });
  expect(columns(ticks)).toEqual({ t: recording.t.slice(0, 3), p: recording.p.slice(0, 3) });
  expect((await fetchPage(box, { symbol: 'second&', from: minute(1), to: minute(9) })).count).toBe(1);
  expect((await fetchPage(box, { symbol: 'silent', from: start, to: noon })).count).toBe(0);
  expect((await sendRequest(box, 'ticks', { symbol: 'first' })).status).toBe(404);
  const list = await fetchMarkets(box);
  expect(list.markets.map(({ symbol, is_active }) => [symbol, is_active])).toEqual([
    ['first one?', false],
    ['second&', true],
    ['silent', true],
  ]);
  expect(list.markets[0]).toMatchObject({
    question: 'Yes?',
    category: 'sports',
    snapshots: 3,
    opens_at: start,
    resolved_at: minute(4),
    outcome: 1,
  });
});

test('shifts a recording by whole minutes so that it ends now', async () => {
  const nowMs = noon + 45_678;
  const box = await openSandbox({ nowMs }, { feed: createRecordedFeed(recording, { shift: 'end-now', nowMs }) });
  const { ticks } = await fetchPage(box, { symbol: 'second&', from: noon - 3_600_000 });
  expect(ticks.map(({ p }) => p)).toEqual([0.25, 0.3]);
  expect(ticks[1]!.t).toBe(noon + 123);
  expect(ticks[0]!.t % 60_000).toBe(0);
  expect(columns(ticks)).toEqual(box.readTruth('second&', { from: 0, to: nowMs }));
});

test('shows no tick before its time and keeps a market active until its last one', async () => {
  const box = await openSandbox(
    { nowMs: minute(3) },
    { feed: createRecordedFeed(recording, { shift: 'own', nowMs: noon }) },
  );
  expect((await fetchPage(box, { symbol: 'first one?', from: start })).count).toBe(2);
  expect((await fetchMarkets(box)).markets[0]).toMatchObject({ is_active: true });
});

test('rejects columns that do not match', () => {
  const broken = { ...recording, offsets: [0, 3, 5] };
  expect(() => createRecordedFeed(broken, { shift: 'own', nowMs: noon })).toThrow('do not match');
});
