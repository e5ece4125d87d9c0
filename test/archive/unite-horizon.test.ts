import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { recordMarkets, recordServedFrom } from '../../src/archive/journal/symbol-store.ts';
import { answer, append, day0, dayMs, hourMs, market, now, opened, publishNow } from './scratch.ts';
import { copyOf, statesOf, uniteNow } from './united.ts';

const days = (from: number, to: number) => ({ from: day0 + from * dayMs, to: day0 + to * dayMs });
const judgedAt = day0 + 8 * dayMs;

/** An archive that listed X and Y from a day on. `endsAt`: the day from which X was inactive. */
function listing(from: number, endsAt: number, symbols = ['X', 'Y']): Archive {
  const archive = opened();
  startRun(archive.state.db, 'run', 'test', process.pid, now);
  const markets = symbols.map((symbol) => market(symbol, { opensAt: day0 }));
  for (let day = from; day < 7; day++) {
    const at = days(day, 7).from + hourMs;
    const listed = markets.map((one) => (one.symbol === 'X' && day >= endsAt ? { ...one, isActive: false } : one));
    appendMarkets(archive.state, { runId: 'run', observedAt: at, markets: listed }, []);
    recordMarkets(archive.state.db, listed, at, true);
  }
  return archive;
}

test.each([
  ['active', 9, 9],
  ['inactive', 6, 6],
  ['inactive in the older one', 6, 9],
  ['inactive in the younger one', 9, 6],
])(
  'what one archive owes of an %s symbol stays owed, where the history of the other one begins later',
  async (_, ...ends) => {
    const [older, younger] = [listing(0, ends[0]), listing(4, ends[1])];
    const respond = (archive: Archive, symbol: string, from: number) =>
      append(archive, answer(symbol, [[days(4, 7).from, 0.5]], { windows: [days(from, 7)], observedAt: judgedAt }));
    respond(older, 'Y', 0);
    respond(older, 'X', 3);
    for (const symbol of ['X', 'Y']) {
      respond(younger, symbol, 4);
      recordServedFrom(younger.state.db, symbol, days(4, 7).from);
    }
    for (const archive of [older, younger]) await publishNow(archive, judgedAt);
    for (const [own, other] of [
      [older, younger],
      [younger, older],
    ] as const) {
      const archive = opened({ root: copyOf(own.layout.root) });
      await uniteNow(archive, other.layout.root, systemDisk, judgedAt);
      expect(statesOf(archive)).toMatchObject({ '2026-06-02': 'incomplete', '2026-06-04': 'complete' });
    }
  },
);

test('what neither archive owes of an inactive symbol is not owed', async () => {
  const archives = [listing(4, 6), listing(4, 6)] as const;
  for (const archive of archives) {
    // The service keeps no more than this.
    const window = { from: days(4, 7).from - 6 * hourMs, to: days(4, 7).to };
    for (const symbol of ['X', 'Y']) {
      append(archive, answer(symbol, [[days(4, 7).from, 0.5]], { windows: [window], observedAt: judgedAt }));
      recordServedFrom(archive.state.db, symbol, window.from);
    }
    await publishNow(archive, judgedAt);
  }
  const [own, other] = archives;
  const before = statesOf(own);
  expect(before).toMatchObject({ '2026-06-04': 'complete', '2026-06-05': 'complete' });
  for (const keepsState of [true, false]) {
    const archive = opened({ root: copyOf(own.layout.root, keepsState) });
    await uniteNow(archive, other.layout.root, systemDisk, judgedAt);
    expect(statesOf(archive)).toEqual(before);
  }
});

test('what was open before the history of the only archive that knows it is owed', async () => {
  const [older, younger] = [listing(0, 9, ['Y']), listing(4, 6, ['X'])];
  append(older, answer('Y', [[days(4, 7).from, 0.5]], { windows: [days(0, 7)], observedAt: judgedAt }));
  append(younger, answer('X', [[days(4, 7).from, 0.5]], { windows: [days(4, 7)], observedAt: judgedAt }));
  for (const archive of [older, younger]) await publishNow(archive, judgedAt);
  expect(statesOf(older)).toMatchObject({ '2026-06-02': 'complete' });
  await uniteNow(older, younger.layout.root, systemDisk, judgedAt);
  expect(statesOf(older)).toMatchObject({ '2026-06-02': 'incomplete', '2026-06-05': 'complete' });
});
