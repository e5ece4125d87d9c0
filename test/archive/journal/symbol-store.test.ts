import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canBeLive, isActive } from '../../../src/archive/completeness/symbol-lifetime.ts';
import { recordImportedMarkets } from '../../../src/archive/journal/imported-symbols.ts';
import { finishRun, isRunOver, readLastStart, startRun } from '../../../src/archive/journal/runs.ts';
import {
  ensureSymbols,
  readAllSymbols,
  readSuspendedSymbols,
  readSymbol,
  readUnsettledSymbols,
  recordMarkets,
  recordRecognition,
  type SymbolRecognition,
} from '../../../src/archive/journal/symbol-store.ts';
import { readPossiblyActiveSymbols } from '../../../src/archive/journal/symbol-subsets.ts';
import { checkProperty } from '../../harness/properties.ts';
import { fullDetails } from '../format/facts.ts';
import { dayMs, market, now, opened } from '../scratch.ts';

const database = () => opened().state.db;

describe('observed markets', () => {
  test('make symbols known, and keep facts that later polls omit', () => {
    const db = database();
    recordMarkets(db, [market('AAA', { question: 'Rain?', opensAt: 5 })], now, true);
    recordMarkets(db, [market('AAA', { category: 'weather', closesAt: 9 })], now + 1, true);
    expect(readSymbol(db, 'AAA')).toMatchObject({
      question: 'Rain?',
      category: 'weather',
      opensAt: 5,
      closesAt: 9,
      isActive: true,
      listed: true,
      firstSeen: now,
      lastSeen: now + 1,
      lastActive: now + 1,
      inactiveSince: null,
      polledFrom: null,
      ticks: 0,
    });
  });

  test('keep details that later polls omit, and take the others', () => {
    const db = database();
    const { rules: _, ...details } = fullDetails;
    recordMarkets(db, [market('AAA', { outcome: 1, ...fullDetails })], now, true);
    expect(readSymbol(db, 'AAA')).toMatchObject({ outcome: 1, ...details });
    recordMarkets(
      db,
      [market('AAA', { isActive: false, event: 'F', exclusive: false, tickSize: 0.01 })],
      now + 1,
      true,
    );
    expect(readSymbol(db, 'AAA')).toMatchObject({
      outcome: 1,
      ...details,
      event: 'F',
      exclusive: false,
      tickSize: 0.01,
    });
  });

  test('have the source of the outcome that is kept', () => {
    const db = database();
    const poll = (i: number, facts: Parameters<typeof market>[1]) => {
      recordMarkets(db, [market('A', { isActive: false, ...facts })], now + i, true);
      return readSymbol(db, 'A')!.outcomeSource;
    };
    expect(poll(0, {})).toBeNull();
    expect(poll(1, { outcome: 0, outcomeSource: 'derived' })).toBe('derived');
    expect(poll(2, {})).toBe('derived');
    expect(poll(3, { outcome: 0 })).toBe('reported');
    // Of an older poll, nothing.
    expect(poll(2, { outcome: 1, outcomeSource: 'derived' })).toBe('reported');
    expect(poll(4, { isActive: true })).toBeNull();
  });

  test('become inactive if a complete list does not name them; an incomplete list proves nothing', () => {
    const db = database();
    recordMarkets(db, [market('AAA'), market('BBB')], now, true);
    recordMarkets(db, [market('BBB')], now + 1, false);
    expect(readSymbol(db, 'AAA')).toMatchObject({ isActive: true, inactiveSince: null });
    recordMarkets(db, [market('BBB')], now + 2, true);
    expect(readSymbol(db, 'AAA')).toMatchObject({ isActive: false, inactiveSince: now + 2, lastActive: now });
    recordMarkets(db, [market('AAA'), market('BBB')], now + 3, true);
    expect(readSymbol(db, 'AAA')).toMatchObject({ isActive: true, inactiveSince: null, lastActive: now + 3 });
  });

  test('keep the first time of being inactive', () => {
    const db = database();
    for (const [i, isActive] of [true, false, false].entries())
      recordMarkets(db, [market('A', { isActive })], now + i, true);
    expect(readSymbol(db, 'A')).toMatchObject({ inactiveSince: now + 1, lastActive: now, lastSeen: now + 2 });
  });

  test('lose their resolution if listed as active without one, but not if that is omitted', () => {
    const db = database();
    const over = { isActive: false, resolvedAt: now - 5, outcome: 1 };
    recordMarkets(db, [market('A', over), market('B', over)], now, true);
    recordMarkets(db, [market('A'), market('B', { isActive: null })], now + 1, true);
    expect(readSymbol(db, 'A')).toMatchObject({ isActive: true, resolvedAt: null, outcome: null, inactiveSince: null });
    expect(readSymbol(db, 'B')).toMatchObject({ resolvedAt: now - 5, outcome: 1 });
  });

  test('with one symbol leave it active if one of them is, in any order', () => {
    const over = market('A', { canonicalId: 'old', isActive: false, resolvedAt: now - 5, outcome: 1 });
    const running = market('A', { canonicalId: 'new', question: 'Again?' });
    for (const both of [
      [over, running],
      [running, over],
    ]) {
      const db = database();
      recordMarkets(db, both, now, true);
      expect(readSymbol(db, 'A')).toMatchObject({ isActive: true, canonicalId: 'new', inactiveSince: null });
    }
  });

  test('apply to a symbol known only by name, even from an older poll', () => {
    const db = database();
    ensureSymbols(db, ['A'], now);
    recordMarkets(db, [market('A', { question: 'Rain?' })], now - 5, true);
    expect(readSymbol(db, 'A')).toMatchObject({
      question: 'Rain?',
      listed: true,
      firstSeen: now - 5,
      lastSeen: now - 5,
    });
    recordMarkets(db, [market('A', { question: 'Snow?' })], now - 4, true);
    expect(readSymbol(db, 'A')).toMatchObject({ question: 'Snow?', lastSeen: now - 4 });
  });

  test('of an older poll that arrives later change nothing', () => {
    const db = database();
    recordMarkets(db, [market('AAA', { isActive: false, outcome: 1 })], now, true);
    recordMarkets(db, [market('AAA', { outcome: 0.5 })], now - 1, true);
    expect(readSymbol(db, 'AAA')).toMatchObject({ isActive: false, outcome: 1, lastSeen: now });
  });

  test('do not change symbols named by hand, in UTF-8 order', () => {
    const db = database();
    ensureSymbols(db, ['🚀', '￿', 'a', 'B'], now);
    ensureSymbols(db, ['a'], now + 1);
    recordMarkets(db, [market('C')], now + 2, true);
    expect(readAllSymbols(db).map(({ symbol }) => symbol)).toEqual(['B', 'C', 'a', '￿', '🚀']);
    expect(readSymbol(db, 'a')).toMatchObject({ firstSeen: now, listed: false, inactiveSince: null });
  });
});

describe('imported markets', () => {
  test('fill in details, and replace them if they are newer; the source follows the outcome', () => {
    const db = database();
    const imported = (atMs: number, facts: Parameters<typeof market>[1]) => {
      recordImportedMarkets(db, [market('A', facts)], atMs, atMs);
      return readSymbol(db, 'A')!;
    };
    imported(now, { event: 'E', outcome: 1, outcomeSource: 'derived' });
    const older = imported(now - 5, { ...fullDetails, event: 'F', outcome: 0, outcomeSource: 'reported' });
    const { rules: _, ...details } = fullDetails;
    expect(older).toMatchObject({ ...details, event: 'E', outcome: 1, outcomeSource: 'derived' });
    expect(imported(now + 5, { event: 'G', exclusive: null })).toMatchObject({ event: 'G', outcomeSource: 'derived' });
    expect(imported(now + 6, { outcome: 0 })).toMatchObject({ event: 'G', outcome: 0, outcomeSource: 'reported' });
  });

  test('of an older file fill in an outcome with its source', () => {
    const db = database();
    recordImportedMarkets(db, [market('A')], now, now);
    recordImportedMarkets(db, [market('A', { outcome: 1, outcomeSource: 'derived' })], now - 1, now - 1);
    expect(readSymbol(db, 'A')).toMatchObject({ outcome: 1, outcomeSource: 'derived' });
  });
});

describe('a symbol that the server reports as unknown', () => {
  const others = { answered: ['C'], failed: [] };
  const unknownOn = (db: ReturnType<typeof database>, day: number, of: Partial<SymbolRecognition> = {}) =>
    recordRecognition(db, { ...others, unknown: ['A'], failed: ['A'], ...of }, 3, now + day * dayMs);
  const known = () => {
    const db = database();
    ensureSymbols(db, ['A', 'B', 'C'], now);
    return db;
  };

  test('is suspended on the third day of such reports, however many there are in one day', () => {
    const db = known();
    for (let poll = 0; poll < 9; poll++) expect(unknownOn(db, 0)).toEqual([]);
    expect(unknownOn(db, 1)).toEqual([]);
    expect(readSymbol(db, 'A')).toMatchObject({ unknownSince: now, suspendedAt: null });
    expect(unknownOn(db, 2)).toEqual(['A']);
    expect(readSymbol(db, 'A')).toMatchObject({ suspendedAt: now + 2 * dayMs, triedAt: now + 2 * dayMs });
    // It stays suspended since then, and is not suspended twice.
    expect(unknownOn(db, 3)).toEqual([]);
    expect(readSymbol(db, 'A')).toMatchObject({ suspendedAt: now + 2 * dayMs, triedAt: now + 3 * dayMs });
    expect(readSuspendedSymbols(db).map(({ symbol }) => symbol)).toEqual(['A']);
  });

  test('is known again after one response, and counted from the first day on', () => {
    const db = known();
    for (const day of [0, 1, 2]) unknownOn(db, day);
    recordRecognition(db, { answered: ['A'], unknown: [], failed: ['A'] }, 3, now + 3 * dayMs);
    expect(readSymbol(db, 'A')).toMatchObject({ unknownSince: null, suspendedAt: null, triedAt: null });
    expect([unknownOn(db, 4), unknownOn(db, 5)]).toEqual([[], []]);
    expect(unknownOn(db, 6)).toEqual(['A']);
  });

  test('is not in doubt if no other symbol got a response, nor after other failures', () => {
    const db = known();
    for (let day = 0; day < 9; day++) {
      expect(unknownOn(db, day, { answered: [] })).toEqual([]);
      expect(unknownOn(db, day, { unknown: [] })).toEqual([]);
    }
    expect(readSymbol(db, 'A')).toMatchObject({ unknownSince: null, suspendedAt: null });
  });

  test('counts from today if an earlier report has a future time', () => {
    const db = known();
    unknownOn(db, 900);
    expect([unknownOn(db, 0), unknownOn(db, 1), unknownOn(db, 2)]).toEqual([[], [], ['A']]);
  });
});

describe('a run', () => {
  test('is over if it finished, if its process has ended, or if it is unknown', () => {
    const db = database();
    startRun(db, 'mine', 'test', process.pid, now);
    startRun(db, 'gone', 'test', 2_147_483_646, now);
    expect(['mine', 'gone', 'unknown'].map((id) => isRunOver(db, id))).toEqual([false, true, true]);
    // Killed before, with the process ID of this process: in a container every run may have ID 1.
    db.run("insert into runs (run_id, job, pid, started_at) values ('namesake', 'test', ?, ?)", process.pid, now);
    expect(isRunOver(db, 'namesake')).toBe(true);
    finishRun(db, 'mine', now, 0, '{}');
    expect(isRunOver(db, 'mine')).toBe(true);
  });

  test('is deleted after a thousand others, unless it never ended', () => {
    const db = database();
    startRun(db, 'open', 'test', 1, now - 1);
    for (let i = 0; i < 1_010; i++) {
      startRun(db, `run ${i}`, 'test', 1, now + i);
      finishRun(db, `run ${i}`, now + i, 0, '{}');
    }
    const runs = db.all<{ run_id: string }>('select run_id from runs').map((row) => row.run_id);
    expect(runs.length).toBeLessThan(1_010);
    expect(runs).toContain('open');
    expect(runs).not.toContain('run 0');
  });

  test('is kept while it is the last of its job, however many others there are', () => {
    const db = database();
    startRun(db, 'night', 'nightly', 1, now);
    finishRun(db, 'night', now, 0, '{}');
    for (let i = 1; i < 1_010; i++) {
      startRun(db, `poll ${i}`, 'ticks', 1, now + i);
      finishRun(db, `poll ${i}`, now + i, 0, '{}');
    }
    expect(readLastStart(db, 'nightly')).toBe(now);
    expect(readLastStart(db, 'ticks')).toBe(now + 1_009);
    expect(readLastStart(db, 'publish')).toBe(null);
    expect(db.all('select 1 from runs').length).toBeLessThan(1_010);
  });
});

test('all symbols that may be polled are among the unsettled, but none that ended long ago', () => {
  const moment = fc.integer({ min: 1, max: 20 });
  const maybe = fc.option(moment, { nil: null });
  const row = fc.record({
    listed: fc.constantFrom(0, 1),
    opens_at: maybe,
    resolved_at: maybe,
    outcome: fc.constantFrom(null, 1),
    last_active: maybe,
    inactive_since: maybe,
    suspended_at: maybe,
    first_seen: moment,
    last_seen: moment,
  });
  const rules = { lookbackMs: 0, lingerMs: 5 };
  const db = database();
  checkProperty([fc.array(row, { maxLength: 20 }), moment], 300, (rows, nowMs) => {
    db.run('delete from symbols');
    rows.forEach((values, i) => {
      const names = Object.keys(values);
      const marks = names.map(() => '?').join(', ');
      db.run(
        `insert into symbols (symbol, ${names.join(', ')}) values (?, ${marks})`,
        `S${i}`,
        ...Object.values(values),
      );
    });
    const known = readAllSymbols(db);
    const live = known.filter((facts) => canBeLive({ ...facts, suspendedAt: null }, nowMs, rules));
    const unsettled = readUnsettledSymbols(db, nowMs - rules.lingerMs);
    expect(unsettled).toEqual(known.filter(({ symbol }) => unsettled.some((one) => one.symbol === symbol)));
    expect(unsettled).toEqual(expect.arrayContaining(live));
    const ended = known.filter((f) => f.inactiveSince !== null && f.inactiveSince <= nowMs - rules.lingerMs);
    const longAgo = ended.filter((f) => Math.max(f.resolvedAt ?? 0, f.lastActive ?? 0) <= nowMs - rules.lingerMs);
    for (const { symbol } of longAgo) expect(unsettled.map((facts) => facts.symbol)).not.toContain(symbol);
    expect(readSuspendedSymbols(db)).toEqual(known.filter((facts) => facts.suspendedAt !== null));
    const possiblyActive = readPossiblyActiveSymbols(db, null, null);
    expect(possiblyActive).toEqual(expect.arrayContaining(known.filter((facts) => isActive(facts, null))));
  });
});
