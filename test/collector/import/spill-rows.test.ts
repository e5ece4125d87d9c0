import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readText } from '../../../src/archive/format/text-columns.ts';
import { openSpillFile, openSpillReader } from '../../../src/archive/publish/spill-file.ts';
import { createRandom } from '../../../src/base/random.ts';
import { dayMs } from '../../../src/base/window.ts';
import { createRowBuffer, type RowBuffer } from '../../../src/collector/import/row-buffer.ts';
import { type SpilledDay, spillRows, startSpillThread } from '../../../src/collector/import/spill-rows.ts';
import { day0, scratchFolder } from '../../archive/scratch.ts';

const rowsMax = 6000;
const seed = 20261127;

/** Fills a buffer: unsorted times of three days, texts with and without nulls, and a column of nulls. */
function fill(buffer: RowBuffer, random: () => number): void {
  for (let i = 0; i < rowsMax; i++) {
    const symbol = `S${Math.floor(random() * 40)}-é`;
    const texts = [random() < 0.2 ? null : `id ${i} ü`, null, random() < 0.5 ? 'buy' : 'sell'];
    const row = buffer.add(symbol, day0 + Math.floor(random() * 3 * dayMs), texts);
    buffer.values[0]![row] = random();
    buffer.values[1]![row] = random() < 0.3 ? Number.NaN : i;
  }
}

/** The rows in scratch files, in the order in which they are listed. */
function readBack(days: readonly SpilledDay[]): unknown[] {
  const reader = openSpillReader();
  try {
    return days.map(({ symbol, day, spilled }) => {
      const { t, values, texts } = reader.readRows(spilled);
      const cells = texts.map((column) => Array.from(t, (_, i) => readText(column, i)));
      return [symbol, day, [...t], values.map((column) => [...column]), cells];
    });
  } finally {
    reader.close();
  }
}

test('a thread spills the same rows in the same order as the calling thread, round after round', async () => {
  const folder = scratchFolder();
  const [ours, its] = [createRowBuffer(rowsMax, 2, 3), createRowBuffer(rowsMax, 2, 3)];
  const [random, sameRandom] = [createRandom(seed), createRandom(seed)];
  const file = openSpillFile(join(folder, 'inline'));
  const thread = await startSpillThread();
  onTestFinished(async () => {
    file.close();
    await thread.close();
  });
  for (let round = 0; round < 3; round++) {
    fill(ours, random);
    fill(its, sameRandom);
    const inline = spillRows(ours.drain(), file);
    const rows = its.take();
    expect(its.length).toBe(0);
    const { days, arrays } = await thread.spill(join(folder, 'thread'), rows);
    // The arrays come back, so that no more than two sets exist.
    expect([rows.arrays.t.length, arrays.t.length]).toEqual([0, rowsMax]);
    its.reuse(arrays);
    expect(inline.length).toBeGreaterThan(100);
    expect(readBack(days)).toEqual(readBack(inline));
  }
});

test('rows are taken while the thread still spills those before', async () => {
  const folder = scratchFolder();
  const buffer = createRowBuffer(4, 1, 1);
  const thread = await startSpillThread();
  onTestFinished(() => thread.close());
  const spills = [0, 1, 2].map((round) => {
    for (let i = 0; i < 4; i++) buffer.values[0]![buffer.add('A', day0 + 4 * round + i, [`${round}`])] = round;
    return thread.spill(join(folder, 'thread'), buffer.take());
  });
  const spilled = (await Promise.all(spills)).flatMap(({ days }) => days);
  expect(readBack(spilled)).toEqual(
    [0, 1, 2].map((round) => {
      const t = [0, 1, 2, 3].map((i) => day0 + 4 * round + i);
      return ['A', day0, t, [[round, round, round, round]], [t.map(() => `${round}`)]];
    }),
  );
});

test('an error of the thread is that of the call', async () => {
  const thread = await startSpillThread();
  onTestFinished(() => thread.close());
  const buffer = createRowBuffer(1, 0);
  buffer.add('A', day0);
  await expect(thread.spill(join(scratchFolder(), 'missing', 'x'), buffer.take())).rejects.toThrow(/ENOENT/);
});
