import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { takeWriteLock } from '../../src/archive/journal/lock.ts';
import { systemClock } from '../../src/base/system.ts';
import { access, type Ended, manifestOf, runProcess as run, totalTicks } from '../e2e/lake.ts';
import { waitFor } from '../harness/limits.ts';
import { findGlobErrors } from './archive-faults.ts';
import { haltAt, isOver, startHooked, startStopped } from './hooked.ts';
import type { Flow, Place } from './kill-flows.ts';
import { createPlace, findErrors, outcomeOf, type RaceBase } from './race-base.ts';
import { type Generation, globUntil, readers } from './race-readers.ts';
import {
  allDone,
  drawDistinct,
  expectSettled,
  flow,
  flowOf,
  lockBusy,
  startAll,
  startReaders,
  stateHeld,
} from './race-start.ts';
import type { Draw } from './seeds.ts';

// Several processes of the program started at once on one archive.

interface Race {
  readonly name: string;
  /** Weight of the race among all races. */
  readonly weight: number;
  run(base: RaceBase, place: Place, draw: Draw): Promise<void>;
}

const nightly = flowOf('next nightly');
const backfill = flowOf('backfill');
const importing = flowOf('import');
const publish = flow('a day', 'publish');

/** Four writers, one of which may be killed, and a reader that starts with the first publish. */
const writers: Race = {
  name: 'writers',
  weight: 6,
  async run(base, place, draw) {
    createPlace(base, place, 'a day');
    const of = drawDistinct(draw, [nightly, backfill, importing, draw.one([publish, nightly, backfill, importing])], 4);
    const running = startAll(base, place, of.slice(1), [], draw);
    const victim = startHooked(
      of[0]!.args(place),
      base.box.url,
      draw.chance(0.5) ? await drawKill(base, of[0]!, draw) : {},
    );
    const all = [victim, ...running];
    const globbing = globUntil(place.archive, () => all.every(isOver));
    await waitFor(() => existsSync(join(place.archive, '.oddslake', 'staging')) || all.every(isOver), 'a publish');
    const seen = startReaders(place, drawDistinct(draw, readers, 1), null);
    await allDone(running);
    if ((await victim.ended).signal === 'SIGKILL') await allDone(startAll(base, place, [of[0]!]));
    else await allDone([victim]);
    await seen();
    expect(await globbing).toEqual([]);
    await expectSettled(base, place, [nightly, backfill, importing]);
  },
};

async function drawKill(base: RaceBase, of: Flow, draw: Draw): Promise<Record<string, string>> {
  const counts = (await base.calm([of])).counts.get(of)!;
  const kind = draw.one(['file', 'state'] as const);
  return haltAt({ of: kind, at: 1 + draw.below(counts[kind]), how: draw.one(['before', 'after', 'half'] as const) });
}

const firstStarts = [
  flow('new', 'nightly', '--date', '2025-06-14'),
  flow('new', 'backfill', '--from', '2025-06-12', '--to', '2025-06-14', '--all-known'),
  flow('new', 'markets'),
] as const;

/** The first starts of an archive. */
const first: Race = {
  name: 'first starts',
  weight: 3,
  async run(base, place, draw) {
    createPlace(base, place, 'new');
    const running = startAll(base, place, drawDistinct(draw, [...firstStarts, firstStarts[0]], 4), [], draw);
    const globbing = globUntil(place.archive, () => running.every(isOver));
    await allDone(running);
    expect(await globbing).toEqual([]);
    await expectSettled(base, place, firstStarts);
  },
};

/**
 * `init` of one archive by four processes, two with separate config files and two with the same one, which one of them
 * writes.
 */
const inits: Race = {
  name: 'inits',
  weight: 1,
  async run(base, place) {
    createPlace(base, place, 'new');
    const names = ['a.yaml', 'b.yaml', 'c.yaml', 'c.yaml'];
    const ended = await Promise.all(
      names.map((name) =>
        run(
          ['init', join(place.out, name), '--output', place.archive, '--name', 'box', '--no-check'],
          access(base.box.url),
        ),
      ),
    );
    expect(ended.map(({ code }) => code).sort(), ended.map(({ stderr }) => stderr).join('')).toEqual([0, 0, 0, 2]);
    const all = startAll(base, place, firstStarts);
    await allDone(all);
    await expectSettled(base, place, firstStarts);
  },
};

const publishing = flowOf('publish');
const exporting = flowOf('export');

/** A publish that is stopped at one of its calls, and the processes that start then. */
const stopped: Race = {
  name: 'stopped publish',
  weight: 8,
  async run(base, place, draw) {
    createPlace(base, place, publishing.base);
    const undisturbed = await base.calm([publishing]);
    const known = await generations(base);
    const at = 1 + draw.below(undisturbed.counts.get(publishing)!.file);
    const stop = { of: 'file', at, how: draw.one(['before', 'after', 'half'] as const) } as const;
    const running = await startStopped(publishing.args(place), base.box.url, `${place.out}.json`, stop);
    expect(running.halted).not.toBeNull();
    // One call takes the lock, and the next releases it.
    const holds = running.counts.lock === 1;
    const impatient = startAll(base, place, [draw.one([publish, importing])], ['--wait', '0']);
    try {
      // If it has not reached the lock yet, the others run before it.
      const seen = await startReaders(place, drawDistinct(draw, readers, 2), holds ? known : null)();
      if (holds) expect(new Set(seen).size, `generations ${seen}`).toBe(1);
      const isBusy = new RegExp(`${lockBusy.source}|${stateHeld.source}`);
      if (holds) for (const { summary } of await allDone(impatient, [5])) expect(summary.error).toMatch(isBusy);
      else await allDone(impatient, [0, 5]);
      expect(findGlobErrors(place.archive)).toEqual([]);
      expect(isOver(running), `at ${running.halted}`).toBe(false);
    } catch (error) {
      running.child.kill('SIGKILL');
      await Promise.allSettled([...impatient, running].map((one) => one.ended));
      throw error;
    }
    const waiting = startAll(base, place, [publish, importing]);
    const signalDrawn = draw.one(['SIGKILL', 'SIGCONT'] as const);
    running.child.kill(signalDrawn);
    const { code, signal } = await running.ended;
    expect([code, signal]).toEqual(signalDrawn === 'SIGKILL' ? [null, 'SIGKILL'] : [0, null]);
    await allDone(waiting);
    await expectSettled(base, place, [publishing, importing]);
  },
};

/** The two generations of an archive whose journal is published. */
async function generations(base: RaceBase): Promise<Generation[]> {
  const [before, after] = await Promise.all([base.calm([exporting]), base.calm([publishing, exporting])]);
  return [
    {
      generation: 1,
      ticks: totalTicks(base.bases['a day']),
      exported: before.outcome.exported!,
      files: before.outcome.files,
    },
    { generation: 2, ticks: after.outcome.ticks, exported: after.outcome.exported!, files: after.outcome.files },
  ];
}

/** Writers with a short wait, while another holds the lock. */
const shortWaits: Race = {
  name: 'short waits',
  weight: 2,
  async run(base, place, draw) {
    createPlace(base, place, 'a day');
    const lock = await takeWriteLock(join(place.archive, '.oddslake', 'lock.sqlite'), 0, systemClock);
    let ended: Ended[];
    try {
      ended = await allDone(
        startAll(base, place, [nightly, backfill, importing, publish], ['--wait', draw.one(['0', '0.3'])]),
        [5],
      );
      expect(manifestOf(place.archive).generation).toBe(1);
    } finally {
      lock.release();
    }
    for (const { summary } of ended) expect(summary.error).toMatch(lockBusy);
    const accepted = ended.reduce((sum, { summary }) => sum + summary.ticks.accepted, 0);
    const [last] = await allDone(startAll(base, place, [publish]));
    expect(last!.summary).toMatchObject({ recovered: 0, published: { added: accepted } });
    await expectSettled(base, place, [nightly, backfill, importing]);
  },
};

const lostStateRace = flowOf('nightly on a lost state');

/** The first runs after the state was lost: one of them rebuilds it. */
const lostStateBases: Race = {
  name: 'a lost state',
  weight: 2,
  async run(base, place, draw) {
    createPlace(base, place, lostStateRace.base);
    const running = startAll(base, place, [lostStateRace, lostStateRace, publish], [], draw);
    const seen = startReaders(place, drawDistinct(draw, readers, 1), null);
    await allDone(running);
    await seen();
    await expectSettled(base, place, [lostStateRace]);
  },
};

const repair = flowOf('repair');

/** A damaged archive is repaired once, whichever process does it. */
const repairs: Race = {
  name: 'repairs',
  weight: 1,
  async run(base, place, draw) {
    createPlace(base, place, 'damaged');
    await allDone(startAll(base, place, [repair, repair], [], draw));
    await expectSettled(base, place, [repair]);
  },
};

/** Files that several processes write to one target. */
const targets: Race = {
  name: 'one target',
  weight: 1,
  async run(base, place, draw) {
    createPlace(base, place, 'a day');
    const twice = [flowOf('snapshot'), flowOf('snapshot'), exporting, exporting];
    const running = startAll(base, place, drawDistinct(draw, twice, 4), [], draw);
    const codes = (await allDone(running, [0, 2])).map(({ code }) => code);
    // A snapshot never replaces another.
    expect(codes.filter((code) => code === 2).length).toBe(1);
    expect(findErrors(base, place, 'a day')).toEqual([]);
    expect(outcomeOf(place)).toEqual({
      ...(await base.calm([exporting])).outcome,
      names: ['snapshot', 'ticks.parquet'],
    });
  },
};

const races: readonly Race[] = [writers, first, inits, stopped, shortWaits, lostStateBases, targets, repairs];

export function drawRace(draw: Draw): Race {
  let drawn = draw() * races.reduce((sum, { weight }) => sum + weight, 0);
  for (const race of races) {
    drawn -= race.weight;
    if (drawn < 0) return race;
  }
  return writers;
}
