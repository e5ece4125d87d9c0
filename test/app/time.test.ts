import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import { job as nightly } from '../../jobs/nightly.ts';
import type { Summary } from '../../src/app/summary.ts';
import { covers, dayFloor, dayMs, union } from '../../src/core/window.ts';
import { takeWriteLock, tryLock } from '../../src/state/lock.ts';
import { systemClock } from '../../src/system.ts';
import { addsUp, coverageOf, hashes, manifestOf, ticksOf } from '../e2e/lake.ts';
import { archiveFolder, contextOf } from './one-process.ts';
import { type ScriptedService, startScripted } from './scripted-service.ts';

const hourMs = 3_600_000;
const yearMs = 365 * dayMs;
const symbols = ['A-1', 'A-2', 'A-3'];
const evening = Date.UTC(2025, 5, 3, 23, 59, 59, 900);

/** A service and a collector, each with its own clock: ours is off by `offMs`. */
async function world(nowMs: number) {
  const box = await startScripted(nowMs, symbols);
  const { output, remove } = archiveFolder();
  onTestFinished(async () => {
    await box.stop();
    remove();
  });
  const hand = { offMs: 0 };
  const start = nowMs - dayMs;
  const set = ['source.first_lookback_days=1', 'falls.markets_share_max=1', 'falls.ticks_share_max=1'];
  const night = async (day: number | null = null): Promise<Summary> => {
    const summary = await nightly.run(await contextOf(output, box.url, () => box.nowMs + hand.offMs, set), { day });
    expect(addsUp(summary)).toBe(true);
    return summary;
  };
  return { box, output, hand, night, start };
}

/** Nothing but the truth is published, and nothing is claimed that had not been yet, or that is not there whole. */
function expectHonest({ output, box, start }: { output: string; box: ScriptedService; start: number }): void {
  for (const symbol of symbols) {
    const truth = box.truth(symbol, start, box.nowMs);
    const times = new Set(truth.map(({ t }) => t));
    const held = ticksOf(output).get(symbol) ?? [];
    expect(held.filter(({ t }) => !times.has(t))).toEqual([]);
    for (const { from, to, ticks } of coverageOf(output).filter((row) => row.symbol === symbol)) {
      expect(to).toBeLessThanOrEqual(box.nowMs);
      expect(dayFloor(to - 1)).toBe(dayFloor(from));
      expect(held.filter(({ t }) => from <= t && t < to)).toEqual(truth.filter(({ t }) => from <= t && t < to));
      expect(ticks).toBe(truth.filter(({ t }) => from <= t && t < to).length);
    }
  }
  expect(manifestOf(output).watermark ?? 0).toBeLessThanOrEqual(box.nowMs);
}

/** All that there is to have is there, and covered. */
function expectWhole(what: { output: string; box: ScriptedService; start: number }): void {
  const { output, box, start } = what;
  for (const symbol of symbols) {
    expect(ticksOf(output).get(symbol)).toEqual(box.truth(symbol, start, box.nowMs));
    const covered = union(coverageOf(output).filter((row) => row.symbol === symbol));
    expect(covers(covered, { from: start, to: box.nowMs })).toBe(true);
  }
}

function runIds(output: string): string[] {
  const db = new DatabaseSync(join(output, '.oddslake', 'state.sqlite'), { readOnly: true });
  const rows = db.prepare('select run_id from runs').all() as { run_id: string }[];
  db.close();
  return rows.map((row) => row.run_id);
}

describe('a run across midnight UTC', () => {
  test('covers up to its beginning, each day for itself, and the next one goes on from there', async () => {
    const lake = await world(evening);
    const { box, night, output } = lake;
    box.script = {
      ticks(honest) {
        // It is the next day by the second answer.
        box.nowMs += 200;
        return { ...honest, generated_at: box.nowMs };
      },
    };
    const across = await night();
    expect(across).toMatchObject({ exit_code: 0, warnings: [], started_at: evening });
    expect(across.finished_at).toBeGreaterThan(dayFloor(evening) + dayMs);
    expectHonest(lake);
    for (const symbol of symbols) {
      const covered = union(coverageOf(output).filter((row) => row.symbol === symbol));
      expect(covered).toEqual([{ from: evening - dayMs, to: evening }]);
    }
    box.script = {};
    box.nowMs += hourMs;
    expect(await night()).toMatchObject({ exit_code: 0, warnings: [] });
    expectHonest(lake);
    expectWhole(lake);
    const midnight = dayFloor(evening) + dayMs;
    for (const symbol of symbols) {
      const near = ticksOf(output)
        .get(symbol)!
        .filter(({ t }) => Math.abs(t - midnight) <= 1);
      expect(near.map(({ t }) => t - midnight)).toEqual([-1, 0, 1]);
    }
  });

  test('of a day by its date ends with that day, before and after midnight, and repeated changes no byte', async () => {
    const lake = await world(evening);
    const { box, night, output } = lake;
    const day = dayFloor(evening);
    const end = () => Math.max(...coverageOf(output).map(({ to }) => to));
    expect(await night(day)).toMatchObject({ exit_code: 0 });
    expect(end()).toBe(evening);
    box.nowMs += 2 * hourMs;
    expect(await night(day)).toMatchObject({ exit_code: 0 });
    expect(end()).toBe(day + dayMs);
    const before = hashes(output, 'ticks', 'coverage', 'conflicts', 'candles_1h', 'candles_1d');
    box.nowMs += dayMs;
    expect(await night(day)).toMatchObject({ exit_code: 0, ticks: { fetched: 0 } });
    expect(hashes(output, 'ticks', 'coverage', 'conflicts', 'candles_1h', 'candles_1d')).toEqual(before);
    expectHonest(lake);
  });
});

const seconds = 5000;
const jumps: [string, number][] = [
  ['forward by seconds', seconds],
  ['back by seconds', -seconds],
  ['forward by an hour', hourMs],
  ['back by an hour', -hourMs],
  ['forward by a day', dayMs],
  ['back by a day', -dayMs],
  ['forward by ten years', 10 * yearMs],
  ['back by ten years', -10 * yearMs],
];

describe('a clock that is set', () => {
  test.each(jumps)('%s amid a run costs no tick, claims nothing, and the next run is whole', async (_, jumpMs) => {
    for (const isStated of [true, false]) {
      const lake = await world(Date.UTC(2025, 5, 3, 3, 17));
      const { box, hand, night } = lake;
      expect(await night()).toMatchObject({ exit_code: 0 });
      box.nowMs += dayMs;
      let answers = 0;
      box.script = {
        ticks(honest) {
          if (++answers === 2) hand.offMs = jumpMs;
          return isStated ? honest : { ...honest, generated_at: undefined };
        },
      };
      const jumped = await night();
      expect([0, 4], JSON.stringify(jumped.failures)).toContain(jumped.exit_code);
      expect(jumped.error).toBe(null);
      expectHonest(lake);
      Object.assign(hand, { offMs: 0 });
      box.script = {};
      box.nowMs += hourMs;
      expect(await night()).toMatchObject({ exit_code: 0, failures: [] });
      expectHonest(lake);
      expectWhole(lake);
    }
  });

  test.each(jumps)('%s for a whole run: the next one with the right clock is whole', async (_, jumpMs) => {
    for (const told of ['generated_at', 'date'] as const) {
      const lake = await world(Date.UTC(2025, 5, 3, 3, 17));
      const { box, hand, night, output } = lake;
      expect(await night()).toMatchObject({ exit_code: 0 });
      box.nowMs += dayMs;
      hand.offMs = jumpMs;
      if (told === 'date') box.script = { ticks: (honest) => ({ ...honest, generated_at: undefined }) };
      const wrong = await night();
      expect([0, 4], JSON.stringify(wrong.failures)).toContain(wrong.exit_code);
      // The head of an answer tells whole seconds, and clocks that differ by seconds are no wonder.
      if (told === 'generated_at' || Math.abs(jumpMs) > seconds) expectHonest(lake);
      hand.offMs = 0;
      box.nowMs += hourMs;
      expect(await night()).toMatchObject({ exit_code: 0, failures: [] });
      expectHonest(lake);
      expectWhole(lake);
      box.nowMs += dayMs;
      expect(await night()).toMatchObject({ exit_code: 0, failures: [] });
      expectWhole(lake);
      const ids = runIds(output);
      expect(new Set(ids).size).toBe(ids.length);
      expect(ids).toHaveLength(4);
    }
  });

  test('ahead for a whole run, with no other clock to tell, is not believed by the next run with the right one', async () => {
    const lake = await world(Date.UTC(2025, 5, 3, 3, 17));
    const { box, hand, night, output } = lake;
    box.sendsDate = false;
    box.script = { ticks: (honest) => ({ ...honest, generated_at: undefined }) };
    expect(await night()).toMatchObject({ exit_code: 0 });
    box.nowMs += hourMs;
    hand.offMs = 6 * hourMs;
    expect(await night()).toMatchObject({ exit_code: 0 });
    expect(manifestOf(output).watermark).toBe(box.nowMs + 6 * hourMs);
    hand.offMs = 0;
    for (let n = 0; n < 4; n++) {
      box.nowMs += hourMs;
      expect(await night()).toMatchObject({ exit_code: 0, watermark: box.nowMs });
      expectWhole(lake);
    }
  });

  test('to what cannot be ends a run before it begins, with a sentence', async () => {
    const lake = await world(Date.UTC(2025, 5, 3, 3, 17));
    for (const nowMs of [0, Date.UTC(1999, 11, 31), Date.UTC(2101, 0, 1), -1]) {
      lake.hand.offMs = nowMs - lake.box.nowMs;
      const summary = await lake.night();
      expect(summary).toMatchObject({ exit_code: 1, requests: 0, generation: 0 });
      expect(summary.error).toMatch(/^The clock of this machine says .*, which cannot be: set it, and run again\.$/);
    }
    lake.hand.offMs = 0;
    expect(await lake.night()).toMatchObject({ exit_code: 0 });
    expectWhole(lake);
  });

  test('does not make the wait for the lock longer or shorter', async () => {
    const { output, remove } = archiveFolder();
    onTestFinished(remove);
    const path = join(output, 'lock.sqlite');
    const held = tryLock(path)!;
    for (const jumpMs of [yearMs, -yearMs]) {
      let passedMs = 0;
      const clock = {
        ...systemClock,
        nowMs: () => evening + passedMs + (passedMs > 500 ? jumpMs : 0),
        monotonicMs: () => passedMs,
        sleep: async (ms: number) => {
          passedMs += ms;
        },
      };
      await expect(takeWriteLock(path, 5000, clock)).rejects.toThrow(/5 s of waiting are over/);
      expect(passedMs).toBe(5000);
    }
    held.release();
  });
});
