import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Log } from '../../src/base/ports.ts';
import {
  createRemainingEstimator,
  createRemainingMeter,
  createSpeedMeter,
  estimateRemainingMs,
  formatProgressLine,
  formatRemaining,
  type ProgressOptions,
  type ProgressState,
  startProgress,
} from '../../src/cli/progress.ts';

function setup(isTTY: boolean, shown = true) {
  const written: string[] = [];
  const lines: object[] = [];
  let nowMs = 0;
  const stream = new Writable({
    write(chunk, _, done) {
      written.push(String(chunk));
      done();
    },
  });
  const note = (facts: object, message: string) => void lines.push({ ...facts, message });
  const log: Log = { debug: note, info: note, warn: note, error: note };
  const options: ProgressOptions = {
    label: 'ticks',
    total: 100,
    unit: 'symbols',
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs, sleep: async () => {} },
    log,
    stream: Object.assign(stream, { isTTY, columns: 120 }),
    canDraw: isTTY,
    isShown: shown,
  };
  return {
    options,
    lines,
    text: () => written.join(''),
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

describe('without a terminal', () => {
  test('logs at most one line per ten seconds, and none for short tasks', async () => {
    const { options, lines, pass, text } = setup(false);
    const progress = await startProgress(options);
    for (let done = 1; done <= 25; done++) {
      pass(1000);
      progress.update({ done, ticks: done * 10 });
    }
    progress.stop();
    expect(lines).toEqual([
      { done: 10, total: 100, unit: 'symbols', ticks: 100, ticks_per_second: 10, seconds_left: 90, message: 'ticks' },
      { done: 20, total: 100, unit: 'symbols', ticks: 200, ticks_per_second: 10, seconds_left: 80, message: 'ticks' },
    ]);
    expect(text()).toBe('');
  });

  test('logs nothing after the end', async () => {
    const { options, lines, pass } = setup(false);
    const progress = await startProgress(options);
    progress.stop();
    pass(60_000);
    progress.update({ done: 5 });
    expect(lines).toEqual([]);
  });

  test('keeps a changed total', async () => {
    const { options, lines, pass } = setup(false);
    const progress = await startProgress(options);
    progress.update({ done: 1, total: 7 });
    pass(10_000);
    progress.update({ done: 2 });
    expect(lines).toMatchObject([{ done: 2, total: 7 }]);
  });
});

describe('on a terminal', () => {
  test('draws a bar with counts, ticks and remaining time', async () => {
    const { options, lines, pass, text } = setup(true);
    {
      using progress = await startProgress(options);
      pass(30_000);
      progress.update({ done: 25, ticks: 1_234_567 });
    }
    expect(text()).toContain('  25 %  25/100 symbols  1.2M ticks  41.2K ticks/s  1m30s left');
    expect(text().endsWith('\n')).toBe(true);
    expect(lines).toEqual([]);
  });

  test('draws no bar for an empty task without requests', async () => {
    const none = setup(true);
    (await startProgress(none.options)).stop();
    expect(none.text()).toBe('');
    const requesting = setup(true);
    const how = () => ({ requests: 0, allowedPerSecond: 5, heldBackMs: 42_000 });
    (await startProgress({ ...requesting.options, getRequestRate: how })).stop();
    expect(requesting.text()).toContain('0/100 symbols  0 of 5 requests/s  throttled 42s');
  });

  test('does not move the cursor back over log lines', async () => {
    const { options, text } = setup(true);
    const progress = await startProgress(options);
    progress.update({ done: 1 });
    progress.stop();
    expect(text()).toContain('1/100');
    expect(text()).not.toContain('\u001b7');
    expect(text()).not.toContain('\u001b8');
  });

  test('installs no signal handlers', async () => {
    const { options } = setup(true);
    const before = process.listenerCount('SIGINT');
    const progress = await startProgress(options);
    progress.update({ done: 1 });
    expect(process.listenerCount('SIGINT')).toBe(before);
    progress.stop();
  });
});

test('shows nothing with --quiet or --no-progress', async () => {
  for (const isTTY of [true, false]) {
    const { options, lines, pass, text } = setup(isTTY, false);
    const progress = await startProgress(options);
    pass(60_000);
    progress.update({ done: 5 });
    progress.stop();
    expect(text() + lines.length).toBe('0');
  }
});

const ticks: ProgressState = {
  label: 'ticks',
  done: 5000,
  total: 20_000,
  unit: 'symbols',
  ticks: 1_234_567,
  ticksPerSecond: 3120,
  requestRate: { perSecond: 4.83, allowed: 5, throttledMs: 0 },
  remainingMs: 200_000,
};

test('a wide line shows counts, tick rate, request rate with limit, and remaining time', () => {
  expect(formatProgressLine(ticks, 140)).toBe(
    'ticks ███████░░░░░░░░░░░░░░░░░░░░░░░  25 %  5,000/20,000 symbols  1.2M ticks  3.1K ticks/s  4.83 of 5 requests/s  3m20s left',
  );
});

test('at 80 columns the bar is wide enough to be read, beside counts, request rate and remaining time', () => {
  const line = formatProgressLine(ticks, 79);
  expect(line).toBe('ticks ████░░░░░░░░░░░░  25 %  5,000/20,000 symbols  4.83 of 5 req/s  3m20s left');
  expect(line.length).toBeLessThanOrEqual(79);
});

test('at 60 columns the line keeps the bar, counts and remaining time', () => {
  expect(formatProgressLine(ticks, 59)).toBe('ticks █████░░░░░░░░░░░░░░░░  25 %  5,000/20,000  3m20s left');
});

test('the bar shows the share that is given, and otherwise the counts', () => {
  expect(formatProgressLine({ ...ticks, share: 0.5 }, 79)).toContain(' ████████░░░░░░░░  50 %  5,000/20,000 symbols ');
  expect(formatProgressLine({ ...ticks, share: 1.1 }, 79)).toContain(' 100 % ');
});

test('fits any width and always shows the label', () => {
  const held = { ...ticks, requestRate: { perSecond: 0, allowed: 5, throttledMs: 42_000 } };
  for (let width = 10; width < 160; width++) {
    for (const facts of [ticks, held, { ...ticks, leftMs: null }]) {
      const line = formatProgressLine(facts, width);
      expect(line.length).toBeLessThanOrEqual(width);
      expect(line.startsWith('ticks')).toBe(true);
    }
  }
});

test('shows a limit that is not a whole number', () => {
  const half = { ...ticks, requestRate: { perSecond: 12.04, allowed: 12.5, throttledMs: 0 } };
  expect(formatProgressLine(half, 140)).toContain('  12 of 12.5 requests/s  ');
});

test('shows throttling while it lasts', () => {
  const held = { ...ticks, requestRate: { perSecond: 0.2, allowed: 5, throttledMs: 42_000 } };
  expect(formatProgressLine(held, 140)).toContain('  0.2 of 5 requests/s  throttled 42s  ');
  expect(formatProgressLine(ticks, 140)).not.toContain('throttled');
});

test('omits ticks and requests if there are none, and formats bytes as sizes', () => {
  const publish = { label: 'publish', done: 1, total: 8, unit: 'parts', remainingMs: null };
  expect(formatProgressLine(publish, 79)).toBe('publish ███░░░░░░░░░░░░░░░░░░░░░░░░░░░  12 %  1/8 parts');
  const bytes = {
    label: 'import',
    done: 1_200_000,
    total: 3_400_000_000,
    unit: 'bytes',
    note: '3/10 files',
    remainingMs: 0,
  };
  expect(formatProgressLine(bytes, 100)).toContain('  1.2 MB of 3.4 GB  3/10 files');
});

test('rounds longer remaining times more', () => {
  expect([900, 59_000, 60_001, 200_000, 599_000, 600_000, 3_599_000, 7_500_000].map(formatRemaining)).toEqual([
    '1s',
    '59s',
    '1m10s',
    '3m20s',
    '10m00s',
    '10m',
    '1h00m',
    '2h05m',
  ]);
});

test('measures even growth exactly from the first step', () => {
  const speed = createSpeedMeter(1000, 10_000);
  expect(speed.perSecond(5000)).toBe(0);
  for (let s = 1; s <= 100; s++) {
    speed.record(1000 + s * 1000, s * 7);
    expect(speed.perSecond(1000 + s * 1000)).toBeCloseTo(7, 9);
  }
});

test('weights steps by their duration', () => {
  const [fine, coarse] = [createSpeedMeter(0, 10_000), createSpeedMeter(0, 10_000)];
  for (let ms = 10; ms <= 60_000; ms += 10) fine.record(ms, ms / 10);
  for (let ms = 7500; ms <= 60_000; ms += 7500) coarse.record(ms, ms / 10);
  expect(fine.perSecond(60_000)).toBeCloseTo(100, 6);
  expect(coarse.perSecond(60_000)).toBeCloseTo(100, 6);
});

test('time without growth lowers the rate, and old growth hardly counts', () => {
  const speed = createSpeedMeter(0, 10_000);
  for (let s = 1; s <= 60; s++) speed.record(s * 1000, s * 10);
  expect(speed.perSecond(70_000)).toBeGreaterThan(3);
  expect(speed.perSecond(70_000)).toBeLessThan(4);
  for (let s = 61; s <= 120; s++) speed.record(s * 1000, 600 + (s - 60) * 100);
  expect(speed.perSecond(120_000)).toBeGreaterThan(99);
});

test('counts several steps at the same time', () => {
  const speed = createSpeedMeter(0, 10_000);
  for (const value of [1, 2, 3, 4]) speed.record(1000, value);
  speed.record(2000, 4);
  expect(speed.perSecond(2000)).toBeGreaterThan(1.5);
});

/** Simulates a task whose items take `msOf`, and returns the error of the remaining time at each item. */
function estimates(items: number, msOf: (item: number) => number): { at: number; ratio: number }[] {
  const ends: number[] = [];
  for (let i = 0; i < items; i++) ends.push((ends.at(-1) ?? 0) + msOf(i));
  const total = ends.at(-1)!;
  const speed = createSpeedMeter(0, 60_000);
  return ends.flatMap((ms, i) => {
    speed.record(ms, i + 1);
    const left = estimateRemainingMs({ done: i + 1, total: items }, ms, speed.perSecond(ms));
    return left === null ? [] : [{ at: ms / total, ratio: left / (total - ms) }];
  });
}

test('estimates the remaining time of even work exactly', () => {
  for (const { ratio } of estimates(600, () => 1000)) expect(ratio).toBeCloseTo(1, 6);
});

test('bursts do not distort the remaining time', () => {
  const reported = estimates(3000, (i) => (i % 30 === 0 ? 20_000 : 10)).filter(({ at }) => at > 0.1 && at < 0.9);
  expect(reported.length).toBeGreaterThan(1000);
  for (const { ratio } of reported) {
    expect(ratio).toBeGreaterThan(0.6);
    expect(ratio).toBeLessThan(1.6);
  }
});

test('the remaining time adapts within minutes when the service slows down', () => {
  const reported = estimates(2000, (i) => (i < 1000 ? 200 : 600)).filter(({ at }) => at > 0.5 && at < 0.9);
  for (const { ratio } of reported) {
    expect(ratio).toBeGreaterThan(0.5);
    expect(ratio).toBeLessThan(1.5);
  }
});

test('gives no estimate at the start and at the end', () => {
  expect(estimateRemainingMs({ done: 5, total: 10 }, 1000, 5)).toBeNull();
  expect(estimateRemainingMs({ done: 0, total: 10 }, 60_000, 0)).toBeNull();
  expect(estimateRemainingMs({ done: 10, total: 10 }, 60_000, 1)).toBeNull();
  expect(estimateRemainingMs({ done: 5, total: 10 }, 5000, 1)).toBe(5000);
});

/** Simulates a run whose speed varies, and returns the displayed and the true remaining time at each second. */
function simulateDisplay(items: number, msOf: (item: number) => number): { shown: number; left: number; ms: number }[] {
  const ends: number[] = [];
  for (let i = 0; i < items; i++) ends.push((ends.at(-1) ?? 0) + msOf(i));
  const total = ends.at(-1)!;
  const [speed, remaining] = [createSpeedMeter(0, 60_000), createRemainingMeter()];
  const out: { shown: number; left: number; ms: number }[] = [];
  let done = 0;
  for (let ms = 200; ms < total; ms += 200) {
    while (ends[done]! <= ms) speed.record(ends[done]!, ++done / items);
    const estimate = estimateRemainingMs({ done: done / items, total: 1 }, ms, speed.perSecond(ms));
    const shown = remaining.smooth(ms, estimate);
    if (shown !== null) out.push({ shown, left: total - ms, ms });
  }
  return out;
}

/** Speeds of runs that really occur: even, with bursts, with one long stop, slowing down, and random. */
const speeds: Record<string, (item: number) => number> = {
  even: () => 400,
  bursts: (i) => (i % 40 === 0 ? 12_000 : 100),
  'one stop': (i) => (i === 500 ? 60_000 : 300),
  slower: (i) => (i < 500 ? 200 : 800),
  random: (i) => 50 + ((i * 7919) % 1000),
};

test.each(Object.entries(speeds))('the displayed time left does not jump: %s', (_, msOf) => {
  const shown = simulateDisplay(1000, msOf);
  expect(shown.length).toBeGreaterThan(500);
  for (const [i, { shown: now }] of shown.entries()) {
    const before = shown[i - 1]?.shown ?? now;
    // In 200 ms it rises by 0.4 % or 100 ms at most, and falls by the time that passed and what it is behind.
    expect(now - before).toBeLessThanOrEqual(Math.max(100, 0.004 * before) + 1e-6);
    expect(before - now).toBeLessThanOrEqual(200 + 0.05 * before);
  }
  // It is not only smooth: the second half of the run is right within a factor of two.
  const late = shown.filter(({ ms, left }) => ms > 0.6 * (ms + left) && left > 15_000);
  expect(late.length).toBeGreaterThan(100);
  for (const { shown: reported, left } of late) {
    expect(reported / left).toBeGreaterThan(0.5);
    expect(reported / left).toBeLessThan(2);
  }
});

test('the displayed time counts down between two updates, and starts again after a time without estimate', () => {
  const meter = createRemainingMeter();
  expect(meter.smooth(0, null)).toBeNull();
  expect(meter.smooth(1000, 60_000)).toBe(60_000);
  expect(meter.smooth(2000, 59_000)).toBeCloseTo(59_000);
  expect(meter.smooth(3000, null)).toBeNull();
  expect(meter.smooth(4000, 500_000)).toBe(500_000);
});

/** Runs that were recorded against a sandbox that answers after 3 seconds: times since the start, and shares that were done then. */
const recordedRuns: Record<string, { readonly ms: readonly number[]; readonly share: readonly number[] }> = {
  '28 symbols, 4 at a time': {
    ms: [
      3069, 12179, 12181, 12199, 12227, 21387, 21393, 21411, 21441, 27448, 27455, 27483, 33484, 33509, 36466, 39515,
      39531, 39556, 42479, 45530, 45558, 45584, 51559, 51595, 51595, 51607, 54611, 57584, 57622, 57642, 60639, 60639,
    ],
    share: [
      0, 0.024, 0.044, 0.069, 0.122, 0.144, 0.176, 0.221, 0.249, 0.296, 0.321, 0.339, 0.37, 0.394, 0.459, 0.486, 0.515,
      0.564, 0.589, 0.609, 0.64, 0.662, 0.691, 0.734, 0.779, 0.807, 0.86, 0.906, 0.933, 0.951, 0.951, 1,
    ],
  },
  '119 symbols, young ones first': {
    ms: [
      3074, 6102, 9110, 12125, 15217, 18222, 21253, 24329, 27344, 30385, 33413, 36452, 39472, 42601, 45633, 48647,
      51651, 54657, 57670, 60677, 63690, 66700, 69706, 72741, 75765, 78778, 81792, 84805, 87822, 90886, 93897, 96917,
      99931, 102940, 105944, 108951, 111956, 114973, 117978, 120981, 123990, 127004, 130025, 133031, 136039, 138233,
      140893, 143222, 146255, 149271, 152288, 155297, 157381, 159442, 162268, 164385, 166428, 168526, 171335, 173428,
      175453, 177570, 180416, 182491, 184502, 186562, 189565, 192768, 195791, 198795, 201799, 204811, 207816, 210843,
      213849, 215285, 215285,
    ],
    share: [
      0, 0, 0, 0, 0.013, 0.02, 0.026, 0.034, 0.046, 0.059, 0.067, 0.081, 0.088, 0.106, 0.119, 0.127, 0.149, 0.177,
      0.188, 0.206, 0.216, 0.231, 0.253, 0.276, 0.283, 0.304, 0.326, 0.34, 0.349, 0.363, 0.369, 0.374, 0.398, 0.409,
      0.423, 0.431, 0.46, 0.477, 0.5, 0.51, 0.522, 0.536, 0.549, 0.565, 0.575, 0.582, 0.589, 0.601, 0.624, 0.635, 0.654,
      0.681, 0.695, 0.702, 0.708, 0.721, 0.738, 0.749, 0.767, 0.786, 0.795, 0.802, 0.813, 0.82, 0.845, 0.851, 0.863,
      0.879, 0.888, 0.904, 0.913, 0.927, 0.934, 0.969, 0.976, 0.992, 1,
    ],
  },
};

test.each(Object.entries(recordedRuns))(
  'on a slow service, the time left is right from the first estimate on: %s',
  (_, { ms: times, share }) => {
    const estimator = createRemainingEstimator(0, true);
    const totalMs = times.at(-1)!;
    let next = 0;
    const shown: number[] = [];
    for (let ms = 0; ms < totalMs - 10_000; ms += 200) {
      for (; times[next]! <= ms; next++) estimator.note(times[next]!, share[next]!);
      const estimateMs = estimator.estimateMs(ms);
      if (estimateMs !== null) shown.push(estimateMs / (totalMs - ms));
    }
    expect(shown.length).toBeGreaterThan(100);
    expect(Math.min(...shown)).toBeGreaterThan(0.5);
    expect(Math.max(...shown)).toBeLessThan(2);
  },
);
