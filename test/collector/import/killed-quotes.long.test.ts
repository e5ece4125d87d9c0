import { mkdirSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import { job as publishJob } from '../../../jobs/publish.ts';
import { createDisk, systemDisk } from '../../../src/archive/disk/file-system.ts';
import { publishedQuotes } from '../../archive/quotes.ts';
import { now, publishedRows, publishedTicks } from '../../archive/scratch.ts';
import { faultDatabase } from '../../faults/fault-database.ts';
import { faultCalls } from '../../faults/fault-disk.ts';
import { startFaults } from '../../faults/fault-points.ts';
import { flows } from '../../faults/flows.ts';
import { archiveOf, contextIn, copyTree, openPlaces } from '../../faults/place.ts';
import { powerModel } from '../../faults/power-loss.ts';
import { orphanProcess } from '../../faults/story.ts';

const places = openPlaces();
afterAll(() => places.clear());

const flow = flows.find(({ name }) => name === 'import of ticks and quotes')!;

/** The published quotes and ticks of each covered window, as `dataset symbol from to: keys`. */
function listCovered(root: string): string[] {
  const keys = {
    quotes: publishedQuotes(root).map(([symbol, t]) => [symbol, t] as const),
    ticks: publishedTicks(root).map(
      (line) =>
        [line.slice(0, line.lastIndexOf(' ', line.lastIndexOf(' ') - 1)), Number(line.split(' ').at(-2))] as const,
    ),
  };
  return publishedRows(root, 'coverage').map(([dataset, symbol, from, to]) => {
    const inside = keys[dataset as keyof typeof keys].filter(([of, t]) => of === symbol && from! <= t! && t! < to!);
    return `${dataset} ${symbol} ${from} ${to}: ${inside.map(([, t]) => t).join(' ')}`;
  });
}

test('an import that is killed at any call leaves no window covered without its rows, whatever publishes next', async () => {
  const before = places.fresh();
  mkdirSync(before);
  await flow.prepare(before);
  orphanProcess(before);
  const known = listCovered(archiveOf(before));
  /** Runs the import up to a call. Returns the number of calls. */
  const run = async (place: string, at: number): Promise<number> => {
    copyTree(before, place);
    const faults = startFaults({ at, kind: 'crash before' });
    const disk = createDisk(faultCalls(faults, powerModel(place).calls));
    await flow.run({ place, disk, openDatabase: faultDatabase(faults), nowMs: now, turn: 1 });
    return faults.calls.length;
  };
  const undisturbed = places.fresh();
  const calls = await run(undisturbed, Number.POSITIVE_INFINITY);
  const complete = listCovered(archiveOf(undisturbed));
  expect(complete.filter((line) => line.startsWith('quotes')).length).toBeGreaterThan(1);
  const wrong: string[] = [];
  for (let at = 1; at <= calls; at += 4) {
    const place = places.fresh();
    await run(place, at);
    orphanProcess(place);
    await publishJob.run(
      await contextIn({ place, disk: systemDisk, openDatabase: undefined, nowMs: now, turn: 2 }),
      undefined,
    );
    for (const line of listCovered(archiveOf(place)))
      if (!known.includes(line) && !complete.includes(line)) wrong.push(`killed at call ${at} of ${calls}: ${line}`);
    places.drop(place);
  }
  expect(wrong).toEqual([]);
});
