import { describe, expect, test } from 'vitest';
import {
  countJournaledTicks,
  listJournalBins,
  readJournalEnd,
  type TickRecord,
} from '../../../src/archive/journal/journal.ts';
import type { BookRecord } from '../../../src/archive/journal/journal-books.ts';
import { consumeJournal } from '../../../src/archive/journal/journal-check.ts';
import type { Clock } from '../../../src/base/ports.ts';
import { openBookJournalWriter, openTickJournalWriter } from '../../../src/collector/paging/journal-writer.ts';
import { answer, day0, now, opened } from '../../archive/scratch.ts';

/** A clock whose sleepers wait until they are woken. */
function sleepingClock(): Clock & { readonly slept: number[]; wake(): void } {
  const slept: number[] = [];
  const sleepers: (() => void)[] = [];
  return {
    nowMs: () => now,
    monotonicMs: () => now,
    sleep: (ms) => {
      slept.push(ms);
      return new Promise((resolve) => void sleepers.push(resolve));
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
  const { state } = opened();
  /** Each transaction is one sync of the disk. */
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
    /** As a publish does. */
    empty: () =>
      consumeJournal(state.db, listJournalBins(state.db, readJournalEnd(state.db)), readJournalEnd(state.db), []),
  };
}

describe('the sink', () => {
  test('writes the answers that come within a moment in one transaction, and takes more meanwhile', async () => {
    const { state, clock, ticks, transactions } = journalOf();
    const sink = openTickJournalWriter(state, clock, 1000, nothing);
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

  /** Appends a last answer after others that each found room; tells whether it had to wait until all were written. */
  async function lastWaits(count: number, record: (i: number) => TickRecord): Promise<boolean> {
    const { state, clock, ticks } = journalOf();
    const sink = openTickJournalWriter(state, clock, 10_000_000, nothing);
    for (let i = 0; i < count - 1; i++) await sink.append(record(i));
    let taken = false;
    const last = sink.append(record(count - 1)).then(() => {
      taken = true;
    });
    await turns();
    const waited = !taken && ticks() === 0;
    clock.wake();
    await last;
    await sink.drain();
    return waited;
  }

  test('takes no 1,025th answer before 1,024 are written, and lets nobody wait for fewer', async () => {
    expect(await lastWaits(1024, one)).toBe(true);
  });

  test('takes no more than 320,000 ticks before they are written', async () => {
    const page = (i: number): TickRecord =>
      answer(
        `S${i}`,
        Array.from({ length: 5000 }, (_, n) => [day0 + n, 0.5]),
      );
    // With what they cover, 63 of these weigh less than that, and 64 more.
    expect(await lastWaits(64, page)).toBe(true);
  });

  test('is drained only once all is written that came while it was being drained', async () => {
    const { state, clock, ticks } = journalOf();
    const gates: (() => void)[] = [];
    const sink = openTickJournalWriter(state, clock, 0, () => new Promise((resolve) => void gates.push(resolve)));
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

  test('publishes once the journal weighs more than it may, with what lay in it before', async () => {
    const { state, clock, ticks, empty } = journalOf();
    const before = openTickJournalWriter(state, clock, 1000, nothing);
    await before.append(one(0));
    clock.wake();
    await before.drain();
    const published: number[] = [];
    // An answer weighs its tick, and eight for what it covers.
    const sink = openTickJournalWriter(state, clock, 27, async () => {
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

  test('counts anew what a publish has left in the journal', async () => {
    const { state, clock } = journalOf();
    let published = 0;
    const sink = openTickJournalWriter(state, clock, 27, async () => void published++);
    for (let i = 0; i < 6; i++) {
      await sink.append(one(i));
      clock.wake();
      await sink.drain();
    }
    expect(published).toBe(3);
  });

  test('tells everybody of what could not be written, those too who wait for room', async () => {
    const { state, clock, ticks } = journalOf();
    const full = new Error('the disk is full');
    let publishes = 0;
    const sink = openTickJournalWriter(state, clock, 0, async () => {
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
    const other = openTickJournalWriter(state, clock, 0, async () => {
      // By now as many wait as may.
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

  test('of order books weighs their levels', async () => {
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
    // A snapshot and what it covers weigh 8 each, its levels 3.
    const sink = openBookJournalWriter(state, clock, 45, async () => void published.push(count()));
    for (let i = 0; i < 3; i++) {
      await sink.append(book(i));
      clock.wake();
      await sink.drain();
    }
    expect(published).toEqual([3]);
  });
});
