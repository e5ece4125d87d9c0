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

/** An archive that listed X and Y from a day on. */
function listing(from: number): Archive {
  const archive = opened();
  startRun(archive.state.db, 'run', 'test', process.pid, now);
  const markets = ['X', 'Y'].map((symbol) => market(symbol, { opensAt: day0 }));
  for (let day = from; day < 7; day++) {
    const at = days(day, 7).from + hourMs;
    appendMarkets(archive.state, { runId: 'run', observedAt: at, markets }, []);
    recordMarkets(archive.state.db, markets, at, true);
  }
  return archive;
}

test('what one archive owes stays owed, where the history of the other one begins later', async () => {
  const [older, younger] = [listing(0), listing(4)];
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
});
