import { describe, expect, test } from 'vitest';
import { readSymbolCoverage } from '../../../src/archive/journal/coverage-store.ts';
import { appendMarkets, readJournalEnd, readPartClaims, readPartTicks } from '../../../src/archive/journal/journal.ts';
import { consumeJournal, listTickParts } from '../../../src/archive/journal/journal-check.ts';
import { readMarketPolls } from '../../../src/archive/journal/journal-markets.ts';
import { readRejected } from '../../../src/archive/journal/journal-rejected.ts';
import { countJournaledTicks } from '../../../src/archive/journal/journal-rows.ts';
import { readRunCounts } from '../../../src/archive/journal/runs.ts';
import { answer, append, day0, dayMs, hourMs, indexed, market, now, opened } from '../scratch.ts';

const tables = ['journal', 'journal_ticks', 'journal_coverage', 'journal_rejected', 'journal_markets'];

describe('the journal', () => {
  test('appends all responses or none', () => {
    const { state } = opened();
    const archive = { ...opened(), state };
    append(archive, answer('AAA', [[day0, 0.5]]));
    const failing = { ...answer('BBB', [[day0, 0.5]]), rejected: [{ reason: null as unknown as string, raw: '{}' }] };
    expect(() => append(archive, answer('CCC', [[day0, 0.5]]), failing)).toThrow(/NOT NULL/);
    expect(countJournaledTicks(state.db)).toBe(1);
    expect(readRunCounts(state.db, 'run')).toMatchObject({ fetched: 1, accepted: 1, quarantined: 0 });
    expect(readSymbolCoverage(state.db, 'CCC')).toEqual([]);
    expect(state.db.one<{ n: number }>('select count(*) as n from journal')!.n).toBe(1);
  });

  test('stores nothing of an empty response, which no publish would consume', () => {
    const archive = opened();
    append(archive, answer('AAA', [], { requestedWindow: { from: day0, to: day0 + 1 } }));
    expect(readJournalEnd(archive.state.db)).toBe(0);
    expect(readRunCounts(archive.state.db, 'run')).toMatchObject({ fetched: 0, accepted: 0 });
  });

  test('splits ticks and coverage by UTC day, in any order of arrival', () => {
    const archive = opened();
    const { db } = archive.state;
    const midnight = day0 + dayMs;
    append(
      archive,
      answer('AAA', [
        [midnight, 0.3],
        [midnight - 1, 0.2],
        [day0, 0.1],
        [midnight + dayMs - 1, 0.4],
      ]),
    );
    const part = { part: 0, from: 'AAA', to: 'AAA' };
    expect(listTickParts(indexed(archive))).toEqual([
      { day: day0, ...part },
      { day: midnight, ...part },
    ]);
    const [first] = readPartTicks(db, { day: day0, ...part }, 99);
    expect([[...first!.t], [...first!.p]]).toEqual([
      [day0, midnight - 1],
      [0.1, 0.2],
    ]);
    const covered = readPartClaims(db, { day: midnight, ...part }, 99).covered.get('AAA');
    expect(covered).toEqual([
      { from: midnight, to: midnight + dayMs, fetchedAt: now, origin: 'poll', evidence: 'confirmed' },
    ]);
  });

  test('keeps equal times in reading order, and doubles bit for bit', () => {
    const archive = opened();
    const prices = [-0, 5e-324, 0.1 + 0.2, 1];
    // Newest first.
    append(archive, answer('AAA', [[day0 + 1, 1], ...prices.toReversed().map((p) => [day0, p] as const)]));
    const [chunk] = readPartTicks(archive.state.db, { day: day0, part: 0, from: 'AAA', to: 'AAA' }, 99);
    expect([...chunk!.p].every((p, i) => Object.is(p, [...prices, 1][i]))).toBe(true);
  });

  test('has parts for coverage without ticks, and for ticks without coverage', () => {
    const archive = opened();
    append(
      archive,
      answer('AAA', [], {
        windows: [{ from: day0, to: day0 + hourMs }],
        requestedWindow: { from: day0, to: day0 + hourMs },
      }),
    );
    append(archive, answer('AAA', [[day0 + dayMs, 0.5]], { windows: [] }));
    expect(listTickParts(indexed(archive)).map(({ day }) => day)).toEqual([day0, day0 + dayMs]);
  });

  test('deletes only the published parts, up to the end that was read', () => {
    const archive = opened();
    const { db } = archive.state;
    append(
      archive,
      answer(
        'AAA',
        [
          [day0, 0.1],
          [day0 + dayMs, 0.2],
        ],
        { rejected: [{ reason: 'bad', raw: '1' }] },
      ),
    );
    const end = readJournalEnd(db);
    append(archive, answer('AAA', [[day0 + 1, 0.3]]));
    const part = { day: day0, part: 0, from: 'AAA', to: 'AAA' };
    db.transaction(() => consumeJournal(db, [part], end, []));
    expect(readPartTicks(db, part, 99).map(({ t }) => [...t])).toEqual([[day0 + 1]]);
    expect(readPartTicks(db, part, end)).toEqual([]);
    expect(readPartTicks(db, { ...part, day: day0 + dayMs }, end).map(({ t }) => [...t])).toEqual([[day0 + dayMs]]);
    expect([...readRejected(db, 99)]).toEqual([]);
    db.transaction(() => consumeJournal(db, listTickParts(indexed(archive)), readJournalEnd(db), []));
    for (const table of tables) expect(db.one<{ n: number }>(`select count(*) as n from ${table}`)!.n, table).toBe(0);
    // A record ID is never used again, even if the journal is empty.
    append(archive, answer('AAA', [[day0 + 2, 0.3]]));
    expect(readJournalEnd(db)).toBeGreaterThan(end + 1);
  });

  test('returns market polls oldest first, and deletes published ones', () => {
    const { state } = opened();
    for (const observedAt of [now + 5, now])
      appendMarkets(state, { runId: 'run', observedAt, markets: [market('🚀', { extra: '{"a":"é"}' })] }, []);
    const polls = [...readMarketPolls(state.db, 99)];
    expect(polls.map((poll) => poll.observedAt)).toEqual([now, now + 5]);
    expect(polls[0]!.markets).toEqual([market('🚀', { extra: '{"a":"é"}' })]);
    consumeJournal(state.db, [], 99, [polls[0]!.recordId]);
    expect([...readMarketPolls(state.db, 99)].map((poll) => poll.observedAt)).toEqual([now + 5]);
  });

  test('counts journaled coverage before it is published', () => {
    const archive = opened();
    append(archive, answer('AAA', [[day0, 0.1]], { windows: [{ from: day0, to: day0 + 3 * dayMs }] }));
    expect(readSymbolCoverage(archive.state.db, 'AAA')).toEqual([{ from: day0, to: day0 + 3 * dayMs }]);
  });
});
