import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { addsUp, dayMs, fixedNow, hashes, sandbox, totalTicks } from '../e2e/lake.ts';
import { archiveFaults, type Contents, contentsOf, globFaults, treeFaults, verified } from './archive-faults.ts';
import { type Kill, runHooked, scratch } from './hooked.ts';
import {
  type Base,
  begin,
  type Flow,
  flows,
  makeBases,
  must,
  type Place,
  placeIn,
  together,
  writeInput,
} from './kill-flows.ts';
import type { CallKind } from './kill-hook.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

// Processes that are killed with SIGKILL at one of their calls, again and again on one archive, and then left alone.

/** Kills of a seed, by each of two chains at once. */
const killsOfChain = 9;
const killsOfArchiveMax = 9;
let processes = 0;

interface Ground {
  readonly box: Sandbox;
  readonly bases: Readonly<Record<Base, string>>;
  readonly input: string;
  readonly folder: string;
  /** What the calls of a flow were that nobody disturbed, and what came of these flows. */
  calm(of: readonly Flow[]): Promise<Calm>;
}

interface Calm {
  readonly wanted: Contents & Made;
  readonly counts: ReadonlyMap<Flow, Readonly<Record<CallKind, number>>>;
}

async function ground(): Promise<Ground> {
  const folder = scratch();
  const box = await sandbox({ seed: 3, nowMs: fixedNow, markets: 4, ticksPerDay: 60, epochMs: fixedNow - 5 * dayMs });
  const input = join(folder, 'input');
  writeInput(input, box);
  const bases = await makeBases(join(folder, 'bases'), box);
  const known = new Map<string, Promise<Calm>>();
  async function runCalm(of: readonly Flow[], name: string): Promise<Calm> {
    const place = placeIn(join(folder, `calm ${name}`), input);
    begin(place, of[0]!.base, bases);
    const counts = new Map<Flow, Readonly<Record<CallKind, number>>>();
    for (const flow of of) {
      const ended = await runHooked(flow.args(place), box.url, join(folder, `calm ${name}.json`));
      must(ended, [0]);
      counts.set(flow, ended.counts);
    }
    expect(faultsOf(place, box, of, bases)).toEqual([]);
    return { wanted: { ...contentsOf(place.archive), ...madeIn(place) }, counts };
  }
  return {
    ...{ box, bases, input, folder },
    calm(of) {
      const name = of.length === 1 ? of[0]!.name : 'together';
      const calm = known.get(name) ?? runCalm(of, name);
      known.set(name, calm);
      return calm;
    },
  };
}

/** What was made outside of the archive; of a snapshot only that it is there, since its generation may be an earlier one. */
interface Made {
  readonly names: readonly string[];
  readonly exported: unknown;
}

const madeIn = ({ out }: Place): Made => ({
  names: readdirSync(out).sort(),
  exported: hashes(out, '.')['ticks.parquet'],
});

function faultsOf({ archive, out }: Place, box: Sandbox, of: readonly Flow[], bases: Ground['bases']): string[] {
  const snapshot = join(out, 'snapshot');
  const forgotten = of[0]!.base === 'without its state' ? totalTicks(bases['without its state']) : 0;
  return [...archiveFaults(archive, box, forgotten), ...(existsSync(snapshot) ? treeFaults(snapshot) : [])];
}

const kinds: readonly CallKind[] = ['file', 'file', 'file', 'state', 'state', 'rate', 'lock'];

function drawKill(draw: Draw, counts: Readonly<Record<CallKind, number>>): Kill {
  const of = draw.one(kinds.filter((kind) => counts[kind] > 0));
  // Rather early than late: a run that goes on where another was killed makes fewer calls.
  return { of, at: 1 + Math.floor(draw() ** 1.5 * counts[of]), how: draw.one(['before', 'after', 'half']) };
}

/** Kills runs on one archive until there were enough, or the only flow is done; then lets all of them run. */
async function chain(grounds: Ground, name: string, draw: Draw, killsMax: number): Promise<number> {
  const { box, bases } = grounds;
  const of = draw.chance(0.25) ? together : [draw.one(flows)];
  const calm = await grounds.calm(of);
  const folder = join(grounds.folder, name);
  const place = placeIn(folder, grounds.input);
  begin(place, of[0]!.base, bases);
  const report = join(grounds.folder, `${name}.json`);
  const story: string[] = [];
  let kills = 0;
  try {
    while (kills < Math.min(killsMax, killsOfArchiveMax)) {
      const flow = draw.one(of);
      const kill = drawKill(draw, calm.counts.get(flow)!);
      processes++;
      const ended = await runHooked(flow.args(place), box.url, report, kill);
      story.push(`${flow.name}: ${ended.died ?? `ended with ${ended.code}`}`);
      if (ended.died !== null) kills++;
      else must(ended, [0, ...(flow.codes ?? [])]);
      expect(ended.signal).toBe(ended.died === null ? null : 'SIGKILL');
      expect(globFaults(place.archive)).toEqual([]);
      // Only now and then: what looks plays the databases' logs in, which the next run is to meet as they were left.
      if (draw.chance(0.3)) expect(await verified(place.archive)).toEqual([]);
      if (ended.died === null && of.length === 1) break;
    }
    for (const flow of of) {
      processes++;
      const last = await runHooked(flow.args(place), box.url, report);
      must(last, [0, ...(flow.codes ?? [])]);
      if (last.stdout.includes('"job":')) expect(addsUp(last.summary)).toBe(true);
    }
    expect(await verified(place.archive)).toEqual([]);
    expect(faultsOf(place, box, of, bases)).toEqual([]);
    expect({ ...contentsOf(place.archive), ...madeIn(place) }).toEqual(calm.wanted);
  } catch (error) {
    throw new Error(`${(error as Error).message}\nAfter:\n${story.join('\n')}`, { cause: error });
  }
  rmSync(folder, { recursive: true });
  return kills;
}

describe('processes that are killed at any of their calls', () => {
  test('lose nothing, double nothing and leave nothing behind', { timeout: searchMsMax }, async () => {
    const grounds = await ground();
    let kills = 0;
    const done = await search({ name: 'kills', least: 28, share: 0.25 }, async (seed) => {
      const draw = drawFrom(seed);
      const chains = [drawFrom(draw.below(2 ** 31)), drawFrom(draw.below(2 ** 31))].map(async (of, i) => {
        for (let mine = 0, n = 0; mine < killsOfChain; n++) {
          const made = await chain(grounds, `${seed}-${i}-${n}`, of, killsOfChain - mine);
          mine += made;
          kills += made;
        }
      });
      await Promise.all(chains);
    });
    console.log(`kills: ${kills}, by ${processes} processes`);
    expect(kills).toBe(done * 2 * killsOfChain);
  });
});
