import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { addsUp } from '../e2e/lake.ts';
import { findGlobErrors, runVerify } from './archive-faults.ts';
import { type Halt, runHooked } from './hooked.ts';
import { concurrentFlows, expectExit, flows } from './kill-flows.ts';
import type { CallKind } from './kill-hook.ts';
import {
  createPlace,
  createRaceBase,
  findErrors,
  outcomeOf,
  placeIn,
  publishRest,
  type RaceBase,
} from './race-base.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

// Processes are killed with SIGKILL at one of their calls, repeatedly on one archive, and then run undisturbed.

/** Kills per seed, by each of two concurrent chains. */
const killsOfChain = 9;
let processes = 0;

const kinds: readonly CallKind[] = ['file', 'file', 'file', 'state', 'state', 'rate', 'lock'];

function drawKill(draw: Draw, counts: Readonly<Record<CallKind, number>>): Halt {
  const of = draw.one(kinds.filter((kind) => counts[kind] > 0));
  // Prefers early calls: a run that resumes after a kill makes fewer calls.
  return { of, at: 1 + Math.floor(draw() ** 1.5 * counts[of]), how: draw.one(['before', 'after', 'half']) };
}

/** Kills runs on one archive until there are enough kills or the only flow is done; then lets all flows finish. */
async function chain(base: RaceBase, name: string, draw: Draw, killsMax: number): Promise<number> {
  const { box } = base;
  const of = draw.chance(0.25) ? concurrentFlows : [draw.one(flows)];
  const undisturbed = await base.calm(of);
  const folder = join(base.folder, name);
  const place = placeIn(folder, base.input);
  createPlace(base, place, of[0]!.base);
  const report = join(base.folder, `${name}.json`);
  const story: string[] = [];
  let kills = 0;
  try {
    while (kills < killsMax) {
      const flow = draw.one(of);
      const kill = drawKill(draw, undisturbed.counts.get(flow)!);
      processes++;
      const ended = await runHooked(flow.args(place), box.url, report, kill);
      story.push(`${flow.name}: ${ended.halted ?? `exited with ${ended.code}`}`);
      if (ended.halted !== null) kills++;
      else expectExit(ended, [0, ...(flow.codes ?? [])]);
      expect(ended.signal).toBe(ended.halted === null ? null : 'SIGKILL');
      if (flow.damaged !== true) expect(findGlobErrors(place.archive)).toEqual([]);
      // Only sometimes: a check replays the databases' logs, which the next run should find as they were left.
      if (draw.chance(0.3) && flow.damaged !== true) expect(await runVerify(place.archive)).toEqual([]);
      if (ended.halted === null && of.length === 1) break;
    }
    for (const flow of of) {
      processes++;
      const last = await runHooked(flow.args(place), box.url, report);
      expectExit(last, [0, ...(flow.codes ?? [])]);
      if (last.stdout.includes('"job":')) expect(addsUp(last.summary)).toBe(true);
    }
    await publishRest(base, place);
    expect(await runVerify(place.archive)).toEqual([]);
    expect(findErrors(base, place, of[0]!.base)).toEqual([]);
    // Which files have the rows depends on what was published together.
    expect({ ...outcomeOf(place), files: {} }).toEqual({ ...undisturbed.outcome, files: {} });
  } catch (error) {
    throw new Error(`${(error as Error).message}\nAfter:\n${story.join('\n')}`, { cause: error });
  }
  rmSync(folder, { recursive: true });
  return kills;
}

describe('processes killed at any of their calls', () => {
  test('lose nothing, duplicate nothing and leave nothing behind', { timeout: searchMsMax }, async () => {
    const base = await createRaceBase();
    let kills = 0;
    const seedsDone = await search({ name: 'kills', least: 28, share: 'rest' }, async (seed) => {
      const draw = drawFrom(seed);
      const chains = [drawFrom(draw.below(2 ** 31)), drawFrom(draw.below(2 ** 31))].map(async (of, i) => {
        for (let mine = 0, n = 0; mine < killsOfChain; n++) {
          const killsMade = await chain(base, `${seed}-${i}-${n}`, of, killsOfChain - mine);
          mine += killsMade;
          kills += killsMade;
        }
      });
      await Promise.all(chains);
    });
    console.log(`kills: ${kills}, by ${processes} processes`);
    expect(kills).toBe(seedsDone * 2 * killsOfChain);
  });
});
