import { existsSync, mkdirSync } from 'node:fs';
import { expect } from 'vitest';
import { createDisk } from '../../src/archive/disk/file-system.ts';
import { now } from '../archive/scratch.ts';
import { copyState, disown, faultDatabase } from './fault-database.ts';
import { faultCalls } from './fault-disk.ts';
import { type FaultKind, type Planned, startFaults } from './fault-points.ts';
import type { Ended, Flow } from './flows.ts';
import { globbed, type Kept, keptBy, keptIn, outcomeOf, runsIn } from './outcome.ts';
import { archiveOf, copyTree, deadPid, disownFiles, type Ground, privateOf } from './place.ts';
import { type Loss, type PowerModel, powerModel } from './power-loss.ts';
import { drawFrom } from './seeds.ts';

/** A flow: what it starts from, and what it leads to. */
export interface Story {
  readonly flow: Flow;
  readonly ground: Ground;
  readonly before: string;
  /** Runs that were there before. */
  readonly runs: readonly string[];
  /** Names of the calls of the undisturbed flow that change something. */
  readonly calls: readonly string[];
  readonly wanted: Record<string, unknown>;
  /** sha256 by path, of what a glob finds before and after. */
  readonly old: ReadonlyMap<string, string>;
  readonly next: ReadonlyMap<string, string>;
}

/** What was accepted, and how often the state had changed by then. */
export interface KeptAt extends Kept {
  readonly changes: number;
}

/** A place after a run that met a fault, or none. */
export interface Left {
  readonly place: string;
  readonly power: PowerModel;
  readonly kept: KeptAt;
  readonly ended: Ended;
  /** The name of the call that the fault struck; null where it struck none. */
  readonly struck: string | null;
  readonly isDead: boolean;
}

/** Runs a flow undisturbed, twice. */
export async function tellStory(flow: Flow, ground: Ground): Promise<Story> {
  const before = ground.fresh();
  mkdirSync(before);
  await flow.prepare(before);
  const runs = runsIn(before);
  pretendGone(before);
  const calm = ground.fresh();
  copyTree(before, calm);
  const whole = startFaults();
  const parts = { place: calm, disk: createDisk(faultCalls(whole, powerModel(calm).calls)), nowMs: now, turn: 1 };
  await expectDone(flow.run({ ...parts, openDatabase: faultDatabase(whole) }), 'undisturbed');
  await expectDone(runAgain(flow, calm, powerModel(calm)), 'undisturbed, once more');
  const wanted = await outcomeOf(calm, runs);
  expect(wanted).toMatchObject({ findings: [], unbalanced: [], journaled: 0, uncounted: 0, open: [] });
  return { flow, ground, before, runs, calls: whole.calls, wanted, old: globbed(before), next: globbed(calm) };
}

export async function expectDone(ending: Promise<Ended>, when: string): Promise<void> {
  expect(await ending, when).toEqual({ exitCode: 0, error: null });
}

/** The next command on a place. */
export const runAgain = (flow: Flow, place: string, power: PowerModel): Promise<Ended> =>
  (flow.again ?? flow.run)({ place, disk: createDisk(power.calls), openDatabase: undefined, nowMs: now, turn: 99 });

/**
 * Runs the flow in a place until the fault strikes, and to its end where it goes on; a process that died leaves its
 * state database as it was at that moment. From the second turn on it is what is done after a fault.
 */
export async function runInto(
  story: Story,
  place: string,
  planned: Planned,
  power: PowerModel,
  turn = 1,
): Promise<Left> {
  const { flow, ground } = story;
  const saved = ground.fresh();
  mkdirSync(saved);
  const faults = startFaults(planned, () => copyState(privateOf(place), saved));
  let kept: KeptAt = { ...keptIn(place), changes: 0 };
  const run = turn === 1 ? flow.run : (flow.again ?? flow.run);
  const ended = await run({
    place,
    nowMs: now,
    turn,
    disk: createDisk(faultCalls(faults, power.calls)),
    openDatabase: faultDatabase(faults, (db) => {
      kept = { ...keptBy(db), changes: kept.changes + 1 };
    }),
  });
  const { isDead } = faults;
  if (isDead && existsSync(privateOf(place))) copyState(saved, privateOf(place));
  ground.drop(saved);
  const struck = faults.struck ? faults.calls[planned.at - 1]! : null;
  return { place, power, kept, ended, struck, isDead };
}

const sentenceShape = /^The disk (failed|is full): [^\n]+\.$/;

/** A disk that fails ends a command with one sentence; one that takes half of a write is asked again, no more. */
export function expectSaid({ flow }: Story, { ended, struck, isDead }: Left, kind: FaultKind, label: string): void {
  if (isDead) return;
  const failed = struck !== null && kind !== 'short write';
  const wanted = failed ? { exitCode: 1, error: expect.stringMatching(sentenceShape) } : { exitCode: 0, error: null };
  if (flow.mayGoOn && ended.exitCode === 0) return;
  expect(ended, label).toEqual(wanted);
}

/** What must hold of a place as it was left, whoever looks at it: a glob, and what was accepted. */
export function expectKept(story: Story, place: string, kept: KeptAt, label: string): void {
  const found = globbed(place);
  for (const [path, hash] of found)
    expect([story.old.get(path), story.next.get(path)], `${label}: ${path}`).toContain(hash);
  expect([...found.keys()], label).toEqual(expect.arrayContaining([...story.old.keys()]));
  expect(kept, label).toMatchObject(keptIn(place));
}

/** Makes the leavings of this process those of one that is gone. */
export function pretendGone(place: string, power?: PowerModel): void {
  disown(archiveOf(place), deadPid);
  disownFiles(place, power?.calls.rename);
}

/** A new place, as a power cut leaves the one of the model; its databases sync themselves and are as they were. */
export function cutPower({ ground }: Story, power: PowerModel, loss: Loss, seed = 0): string {
  const place = ground.fresh();
  power.cut(place, loss, drawFrom(seed));
  if (existsSync(privateOf(place))) copyState(privateOf(power.root), privateOf(place));
  return place;
}

/** The place is as if nothing had happened. */
export async function expectWhole(story: Story, place: string, label: string): Promise<void> {
  expect(await outcomeOf(place, story.runs), label).toEqual(story.wanted);
}
