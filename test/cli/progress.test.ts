import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Log } from '../../src/base/ports.ts';
import { type ProgressOptions, startProgress } from '../../src/cli/progress.ts';

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
    const progress = await startProgress(options);
    pass(30_000);
    progress.update({ done: 25, ticks: 1_234_567 });
    progress.stop();
    expect(text()).toContain('  25 %  25/100 symbols  1.2M ticks  41.2K ticks/s  1m30s left');
    expect(text().endsWith('\n')).toBe(true);
    expect(lines).toEqual([]);
  });

  test('draws no bar for an empty task without requests', async () => {
    const none = setup(true);
    (await startProgress(none.options)).stop();
    expect(none.text()).toBe('');
    const asking = setup(true);
    const how = () => ({ requests: 0, allowedPerSecond: 5, heldBackMs: 42_000 });
    (await startProgress({ ...asking.options, asking: how })).stop();
    expect(asking.text()).toContain('0/100 symbols  0 of 5 requests/s  throttled 42s');
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
