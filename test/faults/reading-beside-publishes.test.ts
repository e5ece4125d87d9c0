import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { watchManifest } from '../../src/archive/read/manifest-watcher.ts';
import { openTickReader } from '../../src/archive/read/read-ticks.ts';
import { openVerifiedFiles } from '../../src/archive/read/verified-files.ts';
import { answer, append, day0, dayMs, now, opened, publishNow, scratchFolder } from '../archive/scratch.ts';

const rounds = 45;

test.each([
  ['kept in memory', 1 << 20],
  ['read again each time', 0],
])('reads see one state while another process publishes (%s)', async (_, bytesMax) => {
  const root = scratchFolder();
  const archive = opened({ root, parts: 1 });
  append(archive, ...[day0, day0 + dayMs].map((day) => answer('S', [[day, 0]], { observedAt: day0 + 3 * dayMs })));
  await publishNow(archive);
  const read = openTickReader(archive, watchManifest(archive), openVerifiedFiles(archive, bytesMax), bytesMax);
  const program = new URL('../archive/read/publisher.ts', import.meta.url).pathname;
  const flags = ['--disable-warning=ExperimentalWarning', program, root, String(day0), String(rounds)];
  const publisher = spawn(process.execPath, flags, { stdio: ['ignore', 'ignore', 'pipe'] });
  onTestFinished(() => void publisher.kill('SIGKILL'));
  let complaint = '';
  publisher.stderr.on('data', (data) => {
    complaint += String(data);
  });
  const closed = once(publisher, 'close');
  let isOver = false;
  void closed.then(() => {
    isOver = true;
  });
  const seen = new Set<number>();
  for (let last = 0; ; ) {
    // Checked before the read, so that the last read sees everything.
    const wasOver = isOver;
    const { slices } = (await read({ symbol: 'S', from: day0, to: now, limit: 10_000 }))!;
    const [first, second] = [0, 1].map((i) => {
      const { t, p, from, to } = slices[i]!;
      return [...t.subarray(from, to)].map((time, k) => [time - day0 - i * dayMs, Math.round(p[from + k]! * 1000)]);
    });
    expect(second).toEqual(first);
    const round = first!.length - 1;
    expect(first).toEqual([[0, round], ...Array.from({ length: round }, (_, k) => [k + 1, k + 1])]);
    expect(round).toBeGreaterThanOrEqual(last);
    last = round;
    seen.add(round);
    if (wasOver) break;
    await new Promise((resolve) => setImmediate(resolve));
  }
  const [code] = await closed;
  expect(code, complaint).toBe(0);
  expect(Math.max(...seen)).toBe(rounds);
  expect(seen.size).toBeGreaterThan(2);
});
