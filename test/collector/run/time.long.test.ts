import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { takeWriteLock, tryLock } from '../../../src/archive/journal/lock.ts';
import { systemClock } from '../../../src/base/system.ts';
import { dayMs, floorToDay, union } from '../../../src/base/window.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { coverageOf, hashes, manifestOf, ticksOf } from '../../e2e/lake.ts';
import { expectHonest, expectWhole, hourMs, runIds, symbols, world, yearMs } from './clocks.ts';

const evening = Date.UTC(2025, 5, 3, 23, 59, 59, 900);

async function opened(nowMs: number) {
  const lake = await world(nowMs);
  onTestFinished(lake.end);
  return lake;
}

describe('a run across midnight UTC', () => {
  test('covers each day up to its start, and the next run resumes from there', async () => {
    const lake = await opened(evening);
    const { box, night, output } = lake;
    box.script = {
      ticks(honest) {
        // The second response is after midnight.
        box.nowMs += 200;
        return { ...honest, generated_at: box.nowMs };
      },
    };
    const across = await night();
    expect(across).toMatchObject({ exit_code: 0, warnings: [], started_at: evening });
    expect(across.finished_at).toBeGreaterThan(floorToDay(evening) + dayMs);
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
    const midnight = floorToDay(evening) + dayMs;
    for (const symbol of symbols) {
      const near = ticksOf(output)
        .get(symbol)!
        .filter(({ t }) => Math.abs(t - midnight) <= 1);
      expect(near.map(({ t }) => t - midnight)).toEqual([-1, 0, 1]);
    }
  });

  test('with --date ends with that day, and repeating it changes no byte', async () => {
    const lake = await opened(evening);
    const { box, night, output } = lake;
    const day = floorToDay(evening);
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

describe('a clock that is set', () => {
  test.each([
    ['back by a day', -dayMs],
    ['forward by a day', dayMs],
  ])('%s amid a run costs no tick and claims nothing, and the next run is whole', async (_, jumpMs) => {
    const lake = await opened(Date.UTC(2025, 5, 3, 3, 17));
    const { box, hand, night, output } = lake;
    expect(await night()).toMatchObject({ exit_code: 0 });
    box.nowMs += dayMs;
    let answers = 0;
    box.script = {
      ticks(honest) {
        if (++answers === 2) hand.offMs = jumpMs;
        return honest;
      },
    };
    const jumped = await night();
    expect([0, 4], JSON.stringify(jumped.failures)).toContain(jumped.exit_code);
    expect(jumped.error).toBe(null);
    expectHonest(lake);
    hand.offMs = 0;
    box.script = {};
    box.nowMs += hourMs;
    expect(await night()).toMatchObject({ exit_code: 0, failures: [] });
    expectHonest(lake);
    expectWhole(lake);
    const ids = runIds(output);
    expect(new Set(ids).size).toBe(3);
  });

  test('a day ahead for a whole run is detected by the Date header', async () => {
    const lake = await opened(Date.UTC(2025, 5, 3, 3, 17));
    const { box, hand, night } = lake;
    box.script = { ticks: (honest) => ({ ...honest, generated_at: undefined }) };
    hand.offMs = dayMs;
    expect(await night()).toMatchObject({ exit_code: 0 });
    expectHonest(lake);
    hand.offMs = 0;
    box.nowMs += 2 * dayMs;
    expect(await night()).toMatchObject({ exit_code: 0 });
    expectHonest(lake);
    for (const symbol of symbols) {
      const ticks = ticksOf(lake.output).get(symbol)!;
      expect(ticks).toEqual(box.truth(symbol, ticks[0]!.t, box.nowMs));
    }
  });

  test('ahead for a whole run without a Date header is ignored by the next correct run', async () => {
    const lake = await opened(Date.UTC(2025, 5, 3, 3, 17));
    const { box, hand, night, output } = lake;
    box.sendsDate = false;
    box.script = { ticks: (honest) => ({ ...honest, generated_at: undefined }) };
    expect(await night()).toMatchObject({ exit_code: 0 });
    box.nowMs += hourMs;
    hand.offMs = 6 * hourMs;
    expect(await night()).toMatchObject({ exit_code: 0 });
    expect(manifestOf(output).reached).toBe(box.nowMs + 6 * hourMs);
    hand.offMs = 0;
    for (let n = 0; n < 4; n++) {
      box.nowMs += hourMs;
      expect(await night()).toMatchObject({ exit_code: 0, reached: box.nowMs });
      expectWhole(lake);
    }
  });

  test('to an invalid time ends a run before it starts, with a message', async () => {
    const lake = await opened(Date.UTC(2025, 5, 3, 3, 17));
    for (const nowMs of [0, Date.UTC(1999, 11, 31), Date.UTC(2101, 0, 1), -1]) {
      lake.hand.offMs = nowMs - lake.box.nowMs;
      const summary = await lake.night();
      expect(summary).toMatchObject({ exit_code: 1, requests: 0, generation: 0 });
      expect(summary.error).toMatch(
        /^The clock of this machine says .*, which is not a valid time\. Set the clock and run again\.$/,
      );
    }
    lake.hand.offMs = 0;
    expect(await lake.night()).toMatchObject({ exit_code: 0 });
    expectWhole(lake);
  });

  test('does not change the wait for the lock', async () => {
    const path = join(scratchFolder(), 'lock.sqlite');
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
      await expect(takeWriteLock(path, 5000, clock)).rejects.toThrow(/still writing this archive after 5 s/);
      expect(passedMs).toBe(5000);
    }
    held.release();
  });
});
