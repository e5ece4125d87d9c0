import { describe, expect, test } from 'vitest';
import { readJournalEnd, type TickRecord } from '../../../src/archive/journal/journal.ts';
import type { BookRecord } from '../../../src/archive/journal/journal-books.ts';
import { consumeJournal, listTickParts } from '../../../src/archive/journal/journal-check.ts';
import { countJournaledTicks } from '../../../src/archive/journal/journal-rows.ts';
import type { Clock } from '../../../src/base/ports.ts';
import { bookRecords, openJournalWriter, tickRecords } from '../../../src/collector/paging/journal-writer.ts';
import { answer, day0, indexed, now, opened } from '../../archive/scratch.ts';

/** A clock whose sleeps end on `wake`, or when they are aborted. */
function sleepingClock(): Clock & { readonly slept: number[]; wake(): void } {
  const slept: number[] = [];
  const sleepers: (() => void)[] = [];
  return {
    nowMs: () => now,
    monotonicMs: () => now,
    sleep: (ms, signal) => {
      slept.push(ms);
      return new Promise((resolve, reject) => {
        sleepers.push(resolve);
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
    },
    slept,
    wake() {
      for (const resolve of sleepers.splice(0)) resolve();
    },
  };
}

const nothing = async (): Promise<void> => {};
const turns = async (): Promise<void> => {
  for (let i = 0; i < 20; i++) await Promise.resolve();
};
const one = (i: number): TickRecord => answer(`S${i}`, [[day0 + i, 0.5]]);

function journalOf() {
  const archive = opened();
  const { state } = archive;
  /** Each transaction is one disk sync. */
  let transactions = 0;
  const db = {
    ...state.db,
    transaction<T>(work: () => T): T {
      transactions++;
      return state.db.transaction(work);
    },
  };
  return {
    state: { ...state, db },
    clock: sleepingClock(),
    ticks: () => countJournaledTicks(state.db),
    transactions: () => transactions,
    /** Empties the journal like a publish. */
    empty: () => consumeJournal(state.db, listTickParts(indexed(archive)), readJournalEnd(state.db), []),
  };
}

describe('the journal writer', () => {
  test('writes records that arrive together in one transaction', async () => {
    const { state, clock, ticks, transactions } = journalOf();
    const sink = openJournalWriter(tickRecords, state, clock, 1000, nothing);
    for (let i = 0; i < 63; i++) await sink.append(one(i));
    expect([ticks(), transactions()]).toEqual([0, 0]);
    expect(clock.slept).toEqual([50]);
    clock.wake();
    await sink.drain();
    expect([ticks(), transactions()]).toEqual([63, 1]);
    await sink.append(one(64));
    clock.wake();
    await sink.drain();
    expect([ticks(), transactions()]).toEqual([64, 2]);
  });

  test('drains without waiting for more records', async () => {
    const { state, clock, ticks, transactions } = journalOf();
    const sink = openJournalWriter(tickRecords, state, clock, 1000, nothing);
    for (let round = 1; round <= 2; round++) {
      await sink.append(one(2 * round));
      await sink.append(one(2 * round + 1));
      let drained = false;
      const draining = sink.drain().then(() => {
        drained = true;
      });
      await turns();
      expect([ticks(), transactions(), drained]).toEqual([2 * round, round, true]);
      await draining;
    }
    // A drain ends only what was gathered before it.
    await sink.append(one(9));
    await turns();
    expect([ticks(), clock.slept]).toEqual([4, [50, 50, 50]]);
    clock.wake();
    await sink.drain();
  });

  /** Appends a last record after others that found room. Resolves to whether it waited until all were written. */
  async function lastWaits(count: number, record: (i: number) => TickRecord): Promise<boolean> {
    const { state, clock, ticks } = journalOf();
    const sink = openJournalWriter(tickRecords, state, clock, 10_000_000, nothing);
    for (let i = 0; i < count - 1; i++) await sink.append(record(i));
    let isTaken = false;
    const last = sink.append(record(count - 1)).then(() => {
      isTaken = true;
    });
    await turns();
    const waited = !isTaken && ticks() === 0;
    clock.wake();
    await last;
    await sink.drain();
    return waited;
  }

  test('holds at most 1,024 records before it writes', async () => {
    expect(await lastWaits(1024, one)).toBe(true);
  });

  test('holds at most 320,000 ticks before it writes', async () => {
    const page = (i: number): TickRecord =>
      answer(
        `S${i}`,
        Array.from({ length: 5000 }, (_, n) => [day0 + n, 0.5]),
      );
    // With their coverage, 63 of these records are below the limit and 64 above it.
    expect(await lastWaits(64, page)).toBe(true);
  });

  test('drains records that arrive while it drains', async () => {
    const { state, clock, ticks } = journalOf();
    const gates: (() => void)[] = [];
    const sink = openJournalWriter(
      tickRecords,
      state,
      clock,
      0,
      () => new Promise((resolve) => void gates.push(resolve)),
    );
    await sink.append(one(0));
    let drained = false;
    const draining = sink.drain().then(() => {
      drained = true;
    });
    clock.wake();
    await turns();
    expect([ticks(), gates.length]).toEqual([1, 1]);
    await sink.append(one(1));
    gates.shift()!();
    await turns();
    expect([ticks(), drained]).toEqual([2, false]);
    gates.shift()!();
    await draining;
    expect(clock.slept).toHaveLength(1);
  });

  test('publishes when the journal exceeds its limit, earlier records included', async () => {
    const { state, clock, ticks, empty } = journalOf();
    const before = openJournalWriter(tickRecords, state, clock, 1000, nothing);
    await before.append(one(0));
    clock.wake();
    await before.drain();
    const published: number[] = [];
    // The load of a record is its tick, plus eight for its coverage.
    const sink = openJournalWriter(tickRecords, state, clock, 27, async () => {
      published.push(ticks());
      empty();
    });
    for (let i = 1; i <= 8; i++) {
      await sink.append(one(i));
      clock.wake();
      await sink.drain();
    }
    expect(published).toEqual([4, 4]);
    expect(ticks()).toBe(1);
  });

  test('counts the records that remain after a publish', async () => {
    const { state, clock } = journalOf();
    let published = 0;
    const sink = openJournalWriter(tickRecords, state, clock, 27, async () => void published++);
    for (let i = 0; i < 6; i++) {
      await sink.append(one(i));
      clock.wake();
      await sink.drain();
    }
    expect(published).toBe(3);
  });

  test('reports a failed write to all callers, including those that wait for room', async () => {
    const { state, clock, ticks } = journalOf();
    const full = new Error('the disk is full');
    let publishes = 0;
    const sink = openJournalWriter(tickRecords, state, clock, 0, async () => {
      publishes++;
      throw full;
    });
    await sink.append(one(0));
    const draining = expect(sink.drain()).rejects.toBe(full);
    clock.wake();
    await turns();
    await draining;
    await expect(sink.append(one(1))).rejects.toBe(full);
    await expect(sink.drain()).rejects.toBe(full);
    expect([ticks(), publishes]).toEqual([1, 1]);
    const other = openJournalWriter(tickRecords, state, clock, 0, async () => {
      // As many callers wait as the limit allows.
      for (let i = 0; i < 1023; i++) void other.append(one(i)).catch(() => {});
      waiting = other.append(one(1023)).catch((error: unknown) => error);
      await turns();
      throw full;
    });
    let waiting: Promise<unknown> = Promise.resolve();
    await other.append(one(2));
    clock.wake();
    await expect(other.drain()).rejects.toBe(full);
    expect(await waiting).toBe(full);
  });

  test('counts the levels of order books', async () => {
    const { state, clock } = journalOf();
    const side = { prices: Float64Array.from([0.4, 0.3, 0.2]), quantities: Float64Array.from([1, 2, 3]) };
    const empty = { prices: new Float64Array(0), quantities: new Float64Array(0) };
    const book = (i: number): BookRecord => ({
      runId: 'run',
      symbol: 'S',
      observedAt: day0 + i,
      rejected: [],
      understood: true,
      snapshots: [{ t: day0 + i, bids: side, asks: empty }],
    });
    const published: number[] = [];
    const count = () => state.db.one<{ n: number }>('select count(*) as n from journal_books')!.n;
    // A snapshot and its coverage count 8 each, its levels 3.
    const sink = openJournalWriter(bookRecords, state, clock, 45, async () => void published.push(count()));
    for (let i = 0; i < 3; i++) {
      await sink.append(book(i));
      clock.wake();
      await sink.drain();
    }
    expect(published).toEqual([3]);
  });
});
