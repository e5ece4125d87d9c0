import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { job as backfill } from '../../../jobs/backfill.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { covers, isWithin, subtract, union, type Window } from '../../../src/base/window.ts';
import { addsUp, type CoverageRow, coverageOf, ticksOf } from '../../e2e/lake.ts';
import { type Misbehaviour, misbehaviours } from './misbehaviour.ts';
import { fewFiles } from './nights.ts';
import { archiveFolder, contextOf, quarantined, type SetAside } from './one-process.ts';
import { type ScriptedService, startScripted, type Tick } from './scripted-service.ts';

const hourMs = 3_600_000;
/** The previous, good night, and the start of its poll. */
const before = Date.UTC(2025, 5, 3, 3, 17);
const start = before - 24 * hourMs;
const badNight = before + 24 * hourMs;
const good = ['GOOD-1', 'GOOD-2'];

/** Rows per night, each with its own symbol. A summary lists twenty failures. */
const rowsMax = 18;

interface Night {
  readonly summary: Summary;
  readonly ticks: ReadonlyMap<string, readonly Tick[]>;
  readonly covered: ReadonlyMap<string, readonly Window[]>;
  /** Covered windows with other evidence than `inferred`. */
  readonly proven: ReadonlyMap<string, readonly Window[]>;
  readonly nowMs: number;
}

interface Nights {
  readonly box: ScriptedService;
  readonly bad: Night;
  readonly setAside: readonly SetAside[];
  readonly requests: readonly string[];
  readonly next: Night;
  readonly forced: Night;
}

const nameOf = (i: number): string => `ROW-${String(i).padStart(2, '0')}`;

/** Runs a good night, one with these rows, another good night, and a backfill of all of it. */
async function playNights(rows: readonly Misbehaviour[], output: string): Promise<Nights> {
  const names = rows.map((_, i) => nameOf(i));
  const box = await startScripted(before, [...good, ...names]);
  try {
    // Each night requests hardly more than what is new, so that its results are clear.
    const rangeSettings = ['source.first_lookback_days=1', 'poll.overlap_minutes=1', 'poll.settle_hours=0'];
    const set = [...rangeSettings, ...fewFiles, 'upstream.response_bytes_max=1000000'];
    const context = () => contextOf(output, box.url, () => box.nowMs, set);
    const look = (summary: Summary): Night => {
      const windowsOf = (rows: readonly CoverageRow[]) =>
        new Map([...Map.groupBy(rows, ({ symbol }) => symbol)].map(([symbol, mine]) => [symbol, union(mine)]));
      const coverage = coverageOf(output);
      const proven = windowsOf(coverage.filter(({ evidence }) => evidence !== 'inferred'));
      return { summary, covered: windowsOf(coverage), proven, ticks: ticksOf(output), nowMs: box.nowMs };
    };
    expect(await nightly.run(await context(), { day: null })).toMatchObject({ exit_code: 0, warnings: [] });
    box.nowMs = badNight;
    box.requests = [];
    box.script = {
      ticks: (...args) => (rows[0]!.isAlone ? rows[0] : rows[names.indexOf(args[1].symbol)])?.ticks(...args) ?? args[0],
    };
    const bad = look(await nightly.run(await context(), { day: null }));
    const setAside = quarantined(output);
    const requests = box.requests;
    box.requests = [];
    box.script = {};
    box.nowMs += hourMs;
    const next = look(await nightly.run(await context(), { day: null }));
    const window = { from: start, to: box.nowMs };
    const how = { symbols: [], force: true, allKnown: true, showPlan: null };
    const forced = look(await backfill.run(await context(), { window, ...how }));
    return { box, bad, setAside, requests, next, forced };
  } finally {
    await box.stop();
  }
}

/** Rows that are served next to correct symbols, several per night. */
const together: (readonly Misbehaviour[])[] = [];
const beside = misbehaviours.filter((row) => !row.isAlone);
for (let i = 0; i < beside.length; i += rowsMax) together.push(beside.slice(i, i + rowsMax));

/** Rows that affect every symbol: each has its own nights. */
const alone = misbehaviours.filter((row) => row.isAlone).map((row) => [row]);
const batches = [...together, ...alone];

describe.each(batches.map((rows) => ({ rows })))('a misbehaving upstream', ({ rows }) => {
  let nights: Nights;
  const { output, remove } = archiveFolder();
  beforeAll(async () => {
    nights = await playNights(rows, output);
  });
  afterAll(remove);

  test('does not affect other symbols, and the counts are consistent', () => {
    const { box, bad, next, forced, setAside } = nights;
    const failing = rows.some((row) => row.fails !== undefined);
    expect(bad.summary, JSON.stringify(bad.summary, null, 1)).toMatchObject({
      exit_code: failing ? 4 : 0,
      error: null,
    });
    for (const night of [bad, next, forced]) expect(addsUp(night.summary)).toBe(true);
    expect(bad.summary.ticks.quarantined).toBe(setAside.length);
    if (!rows[0]!.isAlone)
      expect(bad.summary.symbols.failed).toBe(rows.filter((row) => row.fails !== undefined && !row.isAnswered).length);
    for (const symbol of rows[0]!.isAlone ? [] : good) {
      expect(bad.ticks.get(symbol), symbol).toEqual(box.truth(symbol, start, badNight));
      expect(covers(bad.covered.get(symbol)!, { from: start, to: badNight }), symbol).toBe(true);
    }
    expect(next.summary, JSON.stringify(next.summary, null, 1)).toMatchObject({
      exit_code: 0,
      failures: [],
      error: null,
    });
    expect(forced.summary).toMatchObject({ exit_code: 0, failures: [], warnings: [], error: null });
  });

  test.each(rows.map((row, i) => ({ row, symbol: nameOf(i), does: row.does })))('with $does', ({ row, symbol }) => {
    const { box, bad, next, forced, setAside, requests } = nights;
    const truthIn = ({ from, to }: Window) => box.truth(symbol, from, to);
    const truth = truthIn({ from: before, to: badNight });
    const failures = bad.summary.failures.filter((failure) => row.isAlone || failure.symbol === symbol);
    if (row.fails === undefined) expect(failures).toEqual([]);
    else {
      expect(failures.length).toBeGreaterThan(0);
      for (const { reason } of failures) expect(reason).toMatch(row.fails);
    }
    const aside = setAside.filter((line) => line.symbol === symbol);
    expect([...new Set(aside.map(({ reason }) => reason))]).toEqual(row.setAside ?? []);
    if (row.raw !== undefined) expect(aside[0]!.raw).toMatch(row.raw);
    if (row.warns !== undefined) expect(bad.summary.warnings).toContainEqual(expect.stringMatching(row.warns));
    const kept = bad.ticks.get(symbol)!.filter(({ t }) => t >= before);
    if (row.keeps === 'a part') expect(kept.length).toBeGreaterThan(0);
    else expect(kept).toEqual(row.keeps === undefined ? truth : row.keeps(truth));
    const covered = bad.covered.get(symbol)!;
    if (row.setAside === undefined) {
      for (const window of row.isInferred ? (bad.proven.get(symbol) ?? []) : covered)
        expect(bad.ticks.get(symbol)!.filter(({ t }) => isWithin(t, window))).toEqual(truthIn(window));
    }
    const newlyCovered = subtract(covered, [{ from: start, to: before }]);
    if (row.covers === 'a part') {
      expect(newlyCovered.length).toBeGreaterThan(0);
      expect(covers(newlyCovered, { from: before, to: badNight })).toBe(false);
    } else {
      const to = row.covers === undefined ? badNight : row.covers === 'nothing' ? before : row.covers(badNight);
      expect(newlyCovered).toEqual(to === before ? [] : [{ from: before, to }]);
    }
    const requestCount = requests.filter((request) => request.includes(`symbol=${symbol}&`)).length;
    if (row.isRetried) expect(requestCount).toBeGreaterThan(1);
    const healed = row.heals === undefined ? next : forced;
    expect(healed.ticks.get(symbol)).toEqual(box.truth(symbol, start, healed.nowMs));
    expect(healed.covered.get(symbol)).toEqual([{ from: start, to: healed.nowMs }]);
  });
});
