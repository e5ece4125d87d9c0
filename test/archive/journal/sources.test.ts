import { describe, expect, test } from 'vitest';
import { readKnownPageCaps, recordKnownPageCaps } from '../../../src/archive/journal/coverage-store.ts';
import {
  describeShortLists,
  findLastListedDay,
  readDayLists,
  readLastNight,
  readRecheckHistory,
  recordLastNight,
  recordListings,
  updateRecheckHistory,
} from '../../../src/archive/journal/nightly-memory.ts';
import { toRateFilePath } from '../../../src/archive/journal/rate-limit-store.ts';
import {
  addRunTally,
  createInterruptedRunCheck,
  finishRun,
  readRunCounts,
  startRun,
} from '../../../src/archive/journal/runs.ts';
import { forgetUnusedSources, recordSources } from '../../../src/archive/journal/state.ts';
import {
  readAllSymbols,
  readSymbol,
  readUnsettledSymbols,
  recordMarkets,
} from '../../../src/archive/journal/symbol-store.ts';
import { readPossiblyActiveSymbols } from '../../../src/archive/journal/symbol-subsets.ts';
import { answer, append, dayMs, market, now, opened, publishNow } from '../scratch.ts';

// What is known about a server is known of one source.

test('the lists of one source say nothing about the symbols of another', () => {
  const { db } = opened().state;
  recordMarkets(db, [market('alpha:A'), market('alpha:B')], now, true, 'alpha');
  recordMarkets(db, [market('alpha-2:A'), market('beta:A')], now + 1, true, 'beta');
  recordMarkets(db, [market('alpha:A')], now + 2, true, 'alpha');
  expect(readSymbol(db, 'alpha:B')!.inactiveSince).toBe(now + 2);
  for (const symbol of ['alpha:A', 'alpha-2:A', 'beta:A']) expect(readSymbol(db, symbol)!.inactiveSince).toBeNull();
  expect(readAllSymbols(db, 'alpha').map(({ symbol }) => symbol)).toEqual(['alpha:A', 'alpha:B']);
  const active = [null, 'alpha'].map((source) =>
    readPossiblyActiveSymbols(db, null, source).map(({ symbol }) => symbol),
  );
  expect(active).toEqual([['alpha-2:A', 'alpha:A', 'beta:A'], ['alpha:A']]);
  expect(readUnsettledSymbols(db, now, 'beta').map(({ symbol }) => symbol)).toEqual(['beta:A']);
});

test('each source has its own lists, counts and last day', () => {
  const { db } = opened().state;
  const day = now - (now % dayMs);
  const record = (source: string | null, at: number, markets: number, reason: string | null) =>
    recordListings(
      db,
      [{ view: 'matched', at, markets, total: markets, reason, doubt: null }],
      { at, markets, reason, doubt: null },
      source,
    );
  record('alpha', day, 5, null);
  record('alpha', day + dayMs, 6, null);
  record('beta', day, 50, 'cut off');
  expect(readDayLists(db, ['matched'], 'alpha')(day).isComplete).toBe(true);
  expect(readDayLists(db, ['matched'], 'beta')(day).isComplete).toBe(false);
  expect(readDayLists(db, ['matched'], 'gamma')(day).isComplete).toBe(true);
  expect(describeShortLists(db, 0, day + 2 * dayMs, 'alpha')).toContain('the last 2 days is 5.5');
  expect(describeShortLists(db, 0, day + 2 * dayMs, 'beta')).toBeNull();
  expect(findLastListedDay(db, ['alpha'])).toBe(day + dayMs);
  // The lists of beta are a day behind.
  expect(findLastListedDay(db, ['alpha', 'beta'])).toBe(day);
});

test('each source has its own paging, rechecks, last night and rate', () => {
  const { db } = opened().state;
  recordKnownPageCaps(db, { cap: 3 }, 'alpha');
  expect([readKnownPageCaps(db, 'alpha'), readKnownPageCaps(db, 'beta')]).toEqual([{ cap: 3 }, {}]);
  updateRecheckHistory(db, (known) => ({ ...known, caughtAt: 9 }), 'beta');
  expect([readRecheckHistory(db, 'alpha').caughtAt, readRecheckHistory(db, 'beta').caughtAt]).toEqual([null, 9]);
  recordLastNight(db, now, 'alpha');
  expect([readLastNight(db, 'alpha'), readLastNight(db, 'beta'), readLastNight(db)]).toEqual([now, null, null]);
  expect(new Set(['alpha', 'beta', null].map((source) => toRateFilePath('/f', source))).size).toBe(3);
});

test('sources are added, and where they are is kept up to date', () => {
  const { state } = opened();
  const at = (name: string, upstream: string) => ({ name, upstream });
  expect(recordSources(state, [])).toEqual([]);
  expect(recordSources(state, [at('b', 'https://b.test'), at('a', '')])).toEqual(['b', 'a'].sort());
  expect(recordSources(state, [at('b', 'https://b.test'), at('a', '')])).toEqual([]);
  expect(recordSources(state, [at('b', ''), at('a', 'https://a.test'), at('c', 'https://c.test')])).toEqual(['c']);
  expect(state.identity.sources).toEqual([
    at('a', 'https://a.test'),
    at('b', 'https://b.test'),
    at('c', 'https://c.test'),
  ]);
});

test('a source is forgotten that is not in the settings any more, and of which no symbol is known', () => {
  const { state } = opened();
  recordSources(
    state,
    ['a', 'b', 'c'].map((name) => ({ name, upstream: '' })),
  );
  recordMarkets(state.db, [market('b:X')], now, true, 'b');
  forgetUnusedSources(state, [{ name: 'a' }]);
  expect(state.identity.sources.map(({ name }) => name)).toEqual(['a', 'b']);
});

test('an archive of one service with symbols never becomes one of sources, nor the reverse', () => {
  const sources = [{ name: 'alpha', upstream: '' }];
  const ofService = opened();
  recordMarkets(ofService.state.db, [market('A')], now, true);
  ofService.close();
  expect(() => opened({ root: ofService.layout.root, upstream: null, sources })).toThrow(/have no source/);
  const ofSources = opened({ upstream: null, sources });
  recordMarkets(ofSources.state.db, [market('alpha:A')], now, true, 'alpha');
  ofSources.close();
  const { root } = ofSources.layout;
  expect(() => opened({ root })).toThrow(/has the sources alpha/);
  const others = [{ name: 'beta', upstream: '' }];
  expect(() => opened({ root, upstream: null, sources: others })).toThrow(/only the sources beta/);
});

test('an archive without symbols becomes one of sources, and one of a service again', () => {
  const { close, layout } = opened();
  close();
  const sources = [{ name: 'alpha', upstream: '' }];
  opened({ root: layout.root, upstream: null, sources }).close();
  expect(opened({ root: layout.root }).state.identity.sources).toEqual([]);
});

test('a source of which only an order book is known is not forgotten', () => {
  const archive = opened({ upstream: null, sources: [{ name: 'beta', upstream: '' }] });
  const { db } = archive.state;
  db.run("insert into book_observed values ('beta:X', 1, 1)");
  forgetUnusedSources(archive.state, [{ name: 'alpha' }]);
  expect(archive.state.identity.sources.map(({ name }) => name)).toEqual(['beta']);
});

test('a source that another process is collecting is not forgotten', () => {
  const archive = opened({ upstream: null, sources: ['beta', 'gamma'].map((name) => ({ name, upstream: '' })) });
  const { db } = archive.state;
  // Gamma was interrupted before it had any symbol.
  startRun(db, 'r1', 'nightly', 999_999_999, now, undefined, 'gamma');
  startRun(db, 'r2', 'nightly', process.pid, now, undefined, 'beta');
  forgetUnusedSources(archive.state, [{ name: 'alpha' }]);
  expect(archive.state.identity.sources.map(({ name }) => name)).toEqual(['beta']);
  finishRun(db, 'r2', now, 0, '{}');
  forgetUnusedSources(archive.state, [{ name: 'alpha' }]);
  expect(archive.state.identity.sources).toEqual([]);
});

test('the lists of a forgotten source are forgotten too', () => {
  const archive = opened({ upstream: null, sources: [{ name: 'beta', upstream: '' }] });
  const { db } = archive.state;
  const day = now - (now % dayMs);
  recordListings(db, [], { at: day, markets: 0, reason: 'no such path', doubt: null }, 'beta');
  forgetUnusedSources(archive.state, [{ name: 'alpha' }]);
  recordListings(db, [], { at: day + 9 * dayMs, markets: 1, reason: null, doubt: null }, 'beta');
  expect(readDayLists(db, ['matched'], 'beta')(day + dayMs).isComplete).toBe(true);
});

describe('ticks of an interrupted run', () => {
  /** Process ID of no process. */
  const deadPid = 999_999_999;
  const openSources = () =>
    opened({ upstream: null, sources: ['alpha', 'beta'].map((name) => ({ name, upstream: '' })) });
  const pairs = [
    [now - 9, 0.1],
    [now - 8, 0.2],
  ] as const;

  test('are taken over by the next run of its source only', () => {
    const { db } = openSources().state;
    startRun(db, 'r1', 'nightly', deadPid, now, undefined, 'beta');
    addRunTally(db, 'r1', { accepted: 5, duplicates: 0, conflicts: 0 });
    startRun(db, 'r2', 'nightly', 1, now, undefined, 'alpha');
    startRun(db, 'r3', 'publish', 1, now);
    expect(['r2', 'r3'].map((runId) => readRunCounts(db, runId).recovered)).toEqual([0, 0]);
    startRun(db, 'r4', 'nightly', 1, now, undefined, 'beta');
    expect(['r1', 'r4'].map((runId) => readRunCounts(db, runId))).toMatchObject([{ accepted: 0 }, { recovered: 5 }]);
  });

  test.each(['before', 'after'])('count once, for its source, if another publishes them %s its start', async (when) => {
    const archive = openSources();
    const { db } = archive.state;
    startRun(db, 'r1', 'nightly', deadPid, now, undefined, 'beta');
    append(archive, answer('beta:X', pairs, { runId: 'r1' }));
    startRun(db, 'r2', 'nightly', process.pid, now, undefined, 'alpha');
    append(archive, answer('alpha:X', pairs.slice(1), { runId: 'r2' }));
    if (when === 'after') startRun(db, 'r3', 'nightly', process.pid, now, undefined, 'beta');
    await publishNow(archive, now, 'r2');
    if (when === 'before') startRun(db, 'r3', 'nightly', process.pid, now, undefined, 'beta');
    finishRun(db, 'r3', now, 0, '{}');
    startRun(db, 'r4', 'nightly', process.pid, now, undefined, 'beta');
    const counts = ['r1', 'r2', 'r3', 'r4'].map((runId) => readRunCounts(db, runId));
    expect(counts.map(({ accepted, recovered }) => accepted + recovered)).toEqual(
      when === 'before' ? [0, 1, 2, 0] : [0, 1, 0, 2],
    );
  });

  test('are recovered by a publish of its source', async () => {
    const archive = openSources();
    const { db } = archive.state;
    startRun(db, 'r1', 'nightly', deadPid, now, undefined, 'beta');
    append(archive, answer('beta:X', pairs, { runId: 'r1' }));
    startRun(db, 'r2', 'ticks', process.pid, now, undefined, 'beta');
    expect(createInterruptedRunCheck(db, 'r2')('r1')).toBe(true);
    await publishNow(archive, now, 'r2');
    expect(readRunCounts(db, 'r2').recovered).toBe(2);
  });
});
