import { existsSync, mkdirSync } from 'node:fs';
import { expect } from 'vitest';
import { createDisk } from '../../src/archive/disk/file-system.ts';
import { now } from '../archive/scratch.ts';
import { type DayRows, readDayRows } from '../harness/day-hashes.ts';
import { abandonState, copyState, faultDatabase } from './fault-database.ts';
import { faultCalls } from './fault-disk.ts';
import { type FaultKind, type Planned, startFaults } from './fault-points.ts';
import type { Ended, Flow } from './flows.ts';
import { type Accepted, globbed, outcomeOf, readAccepted, readAcceptedIn, runsIn } from './outcome.ts';
import { archiveOf, copyTree, deadPid, disownFiles, type Places, privateOf } from './place.ts';
import { type Loss, type PowerModel, powerModel } from './power-loss.ts';
import { drawFrom } from './seeds.ts';

/** A flow with its initial state and its result. */
export interface Story {
  readonly flow: Flow;
  readonly places: Places;
  readonly before: string;
  /** Where it ran without a fault. */
  readonly undisturbed: string;
  /** Number of earlier runs. */
  readonly runs: readonly string[];
  /** Names of the changing calls of the undisturbed flow. */
  readonly calls: readonly string[];
  /** The kinds of fault that apply to each of these calls. */
  readonly kinds: readonly (readonly FaultKind[])[];
  readonly wanted: Record<string, unknown>;
  /** sha256 by path of the files that a glob matches, before and after. */
  readonly old: ReadonlyMap<string, string>;
  readonly next: ReadonlyMap<string, string>;
}

/** What was accepted, and the number of state changes by then. */
export interface AcceptedAt extends Accepted {
  readonly changes: number;
}

/** A place after a run with or without a fault. */
interface FlowState {
  readonly place: string;
  readonly power: PowerModel;
  readonly kept: AcceptedAt;
  readonly ended: Ended;
  /** The name of the call at which the fault struck; null if it struck none. */
  readonly struck: string | null;
  readonly isDead: boolean;
}

/** Runs a flow undisturbed, twice. */
export async function recordStory(flow: Flow, places: Places): Promise<Story> {
  const before = places.fresh();
  mkdirSync(before);
  await flow.prepare(before);
  const runs = runsIn(before);
  orphanProcess(before);
  const undisturbed = places.fresh();
  copyTree(before, undisturbed);
  const faultFree = startFaults();
  const parts = {
    place: undisturbed,
    disk: createDisk(faultCalls(faultFree, powerModel(undisturbed).calls)),
    nowMs: now,
    turn: 1,
  };
  await expectDone(flow.run({ ...parts, openDatabase: faultDatabase(faultFree) }), 'undisturbed');
  await expectDone(runAgain(flow, undisturbed, powerModel(undisturbed)), 'undisturbed, once more');
  const expected = await outcomeOf(undisturbed, runs, flow.asks);
  expect(expected).toMatchObject({ findings: [], unbalanced: [], journaled: 0, uncounted: 0, open: [] });
  expect(expected).toMatchObject({ unbalancedSeries: [], series: 0 });
  if (!flow.loses) expect(expected).toMatchObject({ uncountedSeries: [0, 0] });
  return {
    flow,
    places,
    before,
    undisturbed,
    runs,
    calls: faultFree.calls,
    kinds: faultFree.kinds,
    wanted: expected,
    old: globbed(before),
    next: globbed(undisturbed),
  };
}

export async function expectDone(ending: Promise<Ended>, when: string): Promise<void> {
  expect(await ending, when).toEqual({ exitCode: 0, error: null });
}

/** The next command on a place. */
export const runAgain = (flow: Flow, place: string, power: PowerModel): Promise<Ended> =>
  (flow.again ?? flow.run)({ place, disk: createDisk(power.calls), openDatabase: undefined, nowMs: now, turn: 99 });

/**
 * Runs the flow in a place until the fault strikes, and to its end if it continues. A process that died leaves its
 * state database as at that moment. From the second round on it runs the command after a fault.
 */
export async function runInto(
  story: Story,
  place: string,
  planned: Planned,
  power: PowerModel,
  round = 1,
): Promise<FlowState> {
  const { flow, places } = story;
  const saved = places.fresh();
  mkdirSync(saved);
  const faults = startFaults(planned, () => copyState(privateOf(place), saved));
  let kept: AcceptedAt = { ...readAcceptedIn(place), changes: 0 };
  const run = round === 1 ? flow.run : (flow.again ?? flow.run);
  const result = await run({
    place,
    nowMs: now,
    turn: round,
    disk: createDisk(faultCalls(faults, power.calls)),
    openDatabase: faultDatabase(faults, (db) => {
      kept = { ...readAccepted(db), changes: kept.changes + 1 };
    }),
  });
  const { isDead } = faults;
  if (isDead && existsSync(privateOf(place))) copyState(saved, privateOf(place));
  places.drop(saved);
  const struck = faults.struck ? faults.calls[planned.at - 1]! : null;
  return { place, power, kept, ended: result, struck, isDead };
}

const sentenceShape = /^The disk (failed|is full): [^\n]+\.$/;

/** A failing disk ends a command with one error message; a short write is only repeated. */
export function expectMessage(
  { flow }: Story,
  { ended: result, struck, isDead }: FlowState,
  kind: FaultKind,
  label: string,
): void {
  if (isDead) return;
  const failed = struck !== null && kind !== 'short write';
  const expected = failed ? { exitCode: 1, error: expect.stringMatching(sentenceShape) } : { exitCode: 0, error: null };
  if (flow.mayGoOn && result.exitCode === 0) return;
  expect(result, label).toEqual(expected);
}

/** Invariants of a place after the fault: the glob, and what was accepted. */
export function expectInvariants(story: Story, place: string, kept: AcceptedAt, label: string): void {
  const globbedNow = globbed(place);
  for (const [path, hash] of globbedNow) {
    // A second run after a fault may have proven another part.
    if (story.flow.asks && path.startsWith('coverage/')) continue;
    expect([story.old.get(path), story.next.get(path)], `${label}: ${path}`).toContain(hash);
  }
  expect([...globbedNow.keys()], label).toEqual(expect.arrayContaining([...story.old.keys()]));
  expect(kept, label).toMatchObject(readAcceptedIn(place));
}

/**
 * The same of a poll after several faults. Which parts of a day have its rows depends on what was published together, and
 * an interrupted run can have published something: each row is one of before or after, none is there twice, and none that
 * both have is absent.
 */
export function expectRowInvariants(story: Story, place: string, kept: AcceptedAt, label: string): void {
  const [old, next, now] = [story.before, story.undisturbed, place].map((root) =>
    existsSync(archiveOf(root)) ? readDayRows(archiveOf(root), globbed(root).keys()).rows : new Map<string, string[]>(),
  ) as [DayRows, DayRows, DayRows];
  for (const day of new Set([...old.keys(), ...now.keys()])) {
    // A second run after a fault may have proven another part.
    if (day.startsWith('coverage/')) continue;
    const before = new Set(old.get(day));
    const after = new Set(next.get(day));
    const rows = now.get(day) ?? [];
    const strange = rows.filter((row) => !before.has(row) && !after.has(row));
    const absent = [...before].filter((row) => after.has(row) && !rows.includes(row));
    const twice = rows.length - new Set(rows).size;
    expect({ strange, absent, twice }, `${label}: ${day}`).toEqual({ strange: [], absent: [], twice: 0 });
  }
  expect(kept, label).toMatchObject(readAcceptedIn(place));
}

/** Makes the remains of this process look like those of a dead one. */
export function orphanProcess(place: string, power?: PowerModel): void {
  abandonState(archiveOf(place), deadPid);
  disownFiles(place, power?.calls.rename);
}

/** A new place as a power loss leaves that of the model; databases sync themselves and stay as they are. */
export function losePower({ places }: Story, power: PowerModel, loss: Loss, seed = 0): string {
  const place = places.fresh();
  power.cut(place, loss, drawFrom(seed));
  if (existsSync(privateOf(place))) copyState(privateOf(power.root), privateOf(place));
  return place;
}

/** The place is as if there had been no fault. */
export async function expectComplete(story: Story, place: string, label: string): Promise<void> {
  expect(await outcomeOf(place, story.runs, story.flow.asks), label).toEqual(story.wanted);
}
