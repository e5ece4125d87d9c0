import { expect, test } from 'vitest';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { listJournaledDays, readJournalEnd, readSymbolDayTicks } from '../../../src/archive/journal/journal.ts';
import { findPublishedWindow } from '../../../src/archive/journal/symbol-store.ts';
import { answer, append, day0, dayMs, now, opened, publishNow } from '../scratch.ts';

const days = (list: readonly { day: number }[]): number[] => list.map(({ day }) => (day - day0) / dayMs);

test('lists the journaled days of one symbol up to a record, with the last record of each', () => {
  const archive = opened();
  const { db } = archive.state;
  append(archive, answer('A', [[day0, 1]]), answer('B', [[day0 + dayMs, 1]]));
  const first = readJournalEnd(db);
  append(archive, answer('A', [[day0 + 1, 2]]), answer('A', [[day0 + 2 * dayMs, 3]], { windows: [] }));
  const [one, two] = listJournaledDays(db, 'A', readJournalEnd(db));
  expect(days([one!, two!])).toEqual([0, 2]);
  expect([one!.last, two!.last]).toEqual([first + 1, first + 2]);
  expect(days(listJournaledDays(db, 'A', first))).toEqual([0]);
  expect(listJournaledDays(db, 'C', readJournalEnd(db))).toEqual([]);
});

test("reads a symbol's day with the precedence of each response, in order of acceptance", () => {
  const archive = opened();
  const { db } = archive.state;
  append(
    archive,
    answer('A', [[day0 + 1, 1]], { rank: precedenceRanks.preferred, origin: 'import', observedAt: now + 5 }),
  );
  append(archive, answer('A', [[day0, 2]]), answer('B', [[day0, 3]]));
  const chunks = readSymbolDayTicks(db, 'A', day0, readJournalEnd(db));
  expect(chunks.map(({ rank, observedAt, t, p }) => [rank, observedAt, [...t], [...p]])).toEqual([
    [precedenceRanks.preferred, now + 5, [day0 + 1], [1]],
    [precedenceRanks.poll, now, [day0], [2]],
  ]);
  expect(readSymbolDayTicks(db, 'A', day0 + dayMs, readJournalEnd(db))).toEqual([]);
});

test('scans no journaled rows of other symbols', () => {
  const { db } = opened().state;
  const plan = db.all<{ detail: string }>(
    'explain query plan select day, max(record_id) from journal_ticks where symbol = ? and record_id <= ? group by day',
    'A',
    1,
  );
  expect(plan.map(({ detail }) => detail).join('\n')).toContain('journal_ticks_symbol (symbol=?');
});

test('gives the published window, null without ticks, undefined for an unknown symbol', async () => {
  const archive = opened();
  const { db } = archive.state;
  append(archive, answer('A', [[day0, 1]]), answer('B', [], { windows: [{ from: day0, to: day0 + 1 }] }));
  expect(findPublishedWindow(db, 'A')).toBeNull();
  await publishNow(archive);
  expect(findPublishedWindow(db, 'A')).toEqual({ from: day0, to: day0 + 1 });
  expect(findPublishedWindow(db, 'B')).toBeNull();
  expect(findPublishedWindow(db, 'C')).toBeUndefined();
});
