import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { describeShortLists, recordListings } from '../../src/archive/journal/nightly-memory.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { answer, append, day0, dayMs, hourMs, market, now, opened, publishNow } from './scratch.ts';
import { copyOf, statesOf, uniteNow } from './united.ts';

// The manifest lists what the market lists of each day were, so that another state knows it.

const listed = { views: ['matched'] };

interface Poll {
  /** The polled views. */
  readonly views?: readonly string[];
  /** The view whose list is not complete. */
  readonly cut?: string;
  /** Why the lists are not known to be whole. */
  readonly doubt?: string | null;
  readonly markets?: number;
}

function poll(archive: Archive, at: number, { views = ['matched'], cut, doubt = null, markets = 3 }: Poll = {}): void {
  const all = { at, markets, reason: cut === undefined ? null : 'cut off', doubt };
  const lists = views.map((view) => ({ ...all, view, total: markets, reason: view === cut ? 'cut off' : null }));
  recordListings(archive.state.db, lists, all);
}

const days = (from: number, to: number) => ({ from: day0 + from * dayMs, to: day0 + to * dayMs });

/** Covers symbol A on whole days, and publishes. */
async function cover(archive: Archive, from: number, to: number, rest: Parameters<typeof publishNow>[3] = listed) {
  const facts = market('A', { opensAt: day0 });
  appendMarkets(archive.state, { runId: 'run', observedAt: now, markets: [facts] }, []);
  recordMarkets(archive.state.db, [facts], now, true);
  append(archive, answer('A', [[day0 + from * dayMs, 0.5]], { windows: [days(from, to)] }));
  await publishNow(archive, now, 'run', rest);
}

/** Closes the archive, removes its state and opens it again. */
function rebuilt(archive: Archive): Archive {
  archive.close();
  const { root } = archive.layout;
  rmSync(join(root, '.oddslake'), { recursive: true });
  return opened({ root, create: false });
}
const reasonsOf = (archive: Archive) =>
  Object.values(archive.readManifest().days).map(({ state, reasons = [] }) => [
    state,
    ...reasons.map(({ reason, detail }) => detail ?? reason),
  ]);

describe('a rebuilt state', () => {
  test('leaves days as they were, and goes on as the lost one would have', async () => {
    const outcomes = [];
    for (const isLost of [false, true]) {
      let archive = opened();
      poll(archive, day0 + dayMs, { doubt: 'no total' });
      await cover(archive, 0, 3);
      const before = reasonsOf(archive);
      if (isLost) archive = rebuilt(archive);
      await publishNow(archive, now, 'run', { ...listed, judges: true });
      expect(reasonsOf(archive)).toEqual(before);
      poll(archive, day0 + 2 * dayMs);
      await publishNow(archive, now, 'run', { ...listed, judges: true });
      outcomes.push(reasonsOf(archive));
    }
    // Of the day before the first list, any later list says what there was.
    expect(outcomes[0]).toEqual([['complete'], ['provisional', 'no total'], ['complete']]);
    expect(outcomes[1]).toEqual(outcomes[0]);
  });

  test('knows how many markets the lists had', async () => {
    const archive = opened();
    for (let day = 0; day < 3; day++) poll(archive, day0 + day * dayMs, { markets: 100 });
    await cover(archive, 0, 3);
    const again = rebuilt(archive);
    expect(describeShortLists(again.state.db, 30, now)).toContain('the median of the last 3 days is 100');
  });
});

test('the manifest lists the best poll of each day and view', async () => {
  const archive = opened();
  poll(archive, day0 + 3 * hourMs, { doubt: 'no total', markets: 5 });
  poll(archive, day0 + 4 * hourMs, { cut: 'matched', markets: 2 });
  poll(archive, day0 + dayMs, { cut: 'other', views: ['other'] });
  await cover(archive, 0, 2);
  const first = { date: '2026-06-01', at: day0 + 3 * hourMs, markets: 5, complete: true, reason: 'no total' };
  const second = { date: '2026-06-02', at: day0 + dayMs, markets: 3, complete: false, reason: 'cut off' };
  expect(archive.readManifest().datasets.markets.lists).toEqual([
    { ...first, view: '*', total: null },
    { ...first, view: 'matched', total: 5 },
    { ...second, view: '*', total: null },
    { ...second, view: 'other', total: 3 },
  ]);
});

describe('a union', () => {
  const recorded = async (...polls: (readonly [hour: number, rest: Poll])[]): Promise<string> => {
    const archive = opened();
    for (const [hour, rest] of polls) poll(archive, day0 + hour * hourMs, rest);
    await cover(archive, 0, 2);
    archive.close();
    return archive.layout.root;
  };
  /** The states of the days of a copy of one archive that has taken the other, judged by its views. */
  const unitedStates = async (one: string, other: string, { views } = listed): Promise<string[]> => {
    const archive = opened({ root: copyOf(one) });
    await uniteNow(archive, other, undefined, now, { views });
    const states = reasonsOf(archive);
    const { generation } = archive.readManifest();
    await uniteNow(archive, other, undefined, now, { views });
    expect(archive.readManifest().generation).toBe(generation);
    const again = rebuilt(archive);
    await publishNow(again, now, 'run', { views, judges: true });
    expect(reasonsOf(again)).toEqual(states);
    return states.map(([state]) => state!);
  };

  test('has the better list of each day, in either order and when the state is lost', async () => {
    const one = await recorded([1, {}], [25, { cut: 'matched' }]);
    const other = await recorded([2, { doubt: 'no total' }], [26, { doubt: 'no total' }]);
    for (const states of [await unitedStates(one, other), await unitedStates(other, one)])
      expect(states).toEqual(['complete', 'provisional']);
  });

  test('is not listed whole because the other archive polls fewer views', async () => {
    const more = { views: ['matched', 'other'] };
    const one = await recorded([1, { ...more, cut: 'other' }], [25, { ...more, cut: 'matched' }]);
    const other = await recorded([2, {}], [26, {}]);
    expect(await unitedStates(one, other, more)).toEqual(['incomplete', 'complete']);
    expect(await unitedStates(other, one)).toEqual(['complete', 'complete']);
  });

  test('takes no list from days that are complete without one', async () => {
    const [own, other] = [opened(), opened()];
    poll(own, day0 + hourMs, { cut: 'matched' });
    await cover(own, 0, 1);
    await cover(other, 0, 1, { namedSymbols: new Set(['A']) });
    expect([statesOf(own), statesOf(other)].map((states) => states['2026-06-01'])).toEqual(['incomplete', 'complete']);
    other.close();
    await uniteNow(own, other.layout.root);
    await publishNow(own, now, 'run', { ...listed, judges: true });
    expect(statesOf(own)['2026-06-01']).toBe('incomplete');
  });
});
