import { createHash } from 'node:crypto';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { diskOver, systemDisk } from '../../src/archive/disk.ts';
import { now } from '../archive/scratch.ts';
import { copyState, disown, faultDatabase } from './fault-database.ts';
import { faultCalls } from './fault-disk.ts';
import { type FaultKind, faultKinds, startFaults } from './fault-points.ts';
import type { Ended, Flow } from './flows.ts';
import { globbed, type Kept, keptBy, keptIn, outcomeOf, runsIn } from './outcome.ts';
import { copyTree, deadPid, disownFiles, filesBelow, type Ground, hashOf, privateOf } from './place.ts';
import { type Loss, type PowerModel, powerModel } from './power-loss.ts';
import { drawFrom } from './seeds.ts';

export interface Swept {
  /** Calls of the undisturbed flow that change something. */
  readonly points: number;
  /** Faults that came to pass. */
  readonly faults: number;
  /** Different leavings of them that were opened anew. */
  readonly reopened: number;
}

/** What the flow starts from, and what it leads to. */
interface Story {
  readonly flow: Flow;
  readonly ground: Ground;
  readonly before: string;
  readonly runs: readonly string[];
  readonly wanted: Record<string, unknown>;
  /** sha256 by path, of what a glob finds before and after. */
  readonly old: ReadonlyMap<string, string>;
  readonly next: ReadonlyMap<string, string>;
  /** Leavings that were looked at already. */
  readonly seen: Set<string>;
}

/** What was accepted, and how often the state had changed by then. */
interface KeptAt extends Kept {
  readonly changes: number;
}

const sentenceShape = /^The disk (failed|is full): [^\n]+\.$/;

/** Lets every kind of fault strike every call of a flow, and looks at what each leaves. */
export async function sweep(flow: Flow, ground: Ground): Promise<Swept> {
  const before = ground.fresh();
  mkdirSync(before);
  await flow.prepare(before);
  if (existsSync(privateOf(before))) disown(join(before, 'archive'), deadPid);
  const story = { flow, ground, before, runs: runsIn(before), old: globbed(before), seen: new Set<string>() };
  const calm = ground.fresh();
  copyTree(before, calm);
  const whole = startFaults();
  const parts = { place: calm, disk: diskOver(faultCalls(whole, powerModel(calm).calls)), nowMs: now };
  await expectDone(flow.run({ ...parts, openDatabase: faultDatabase(whole), turn: 1 }), 'undisturbed');
  const points = whole.calls.length;
  const next = globbed(calm);
  await expectDone(again(flow, calm), 'undisturbed, once more');
  const wanted = await outcomeOf(calm, story.runs);
  expect(wanted).toMatchObject({ findings: [], unbalanced: [], journaled: 0, uncounted: 0, open: [] });
  let faults = 0;
  for (let at = 1; at <= points; at++) {
    for (const kind of faultKinds) {
      // Dying after a call is dying before the next.
      if (kind === 'crash after' && at < points) continue;
      if (await strike({ ...story, next, wanted }, at, kind)) faults++;
    }
  }
  return { points, faults, reopened: story.seen.size };
}

async function expectDone(ending: Promise<Ended>, when: string): Promise<void> {
  expect(await ending, when).toEqual({ exitCode: 0, error: null });
}

/** The next command on a place. */
function again(flow: Flow, place: string, power?: PowerModel): Promise<Ended> {
  const disk = power === undefined ? systemDisk : diskOver(power.calls);
  return (flow.again ?? flow.run)({ place, disk, openDatabase: undefined, nowMs: now, turn: 2 });
}

/** False where this fault does not fit this call. */
async function strike(story: Story, at: number, kind: FaultKind): Promise<boolean> {
  const { flow, ground } = story;
  const place = ground.fresh();
  const saved = ground.fresh();
  copyTree(story.before, place);
  mkdirSync(saved);
  const power = powerModel(place);
  const faults = startFaults({ at, kind }, () => copyState(privateOf(place), saved));
  let kept: KeptAt = { ...keptIn(place), changes: 0 };
  const ended = await flow.run({
    ...{ place, nowMs: now, turn: 1, disk: diskOver(faultCalls(faults, power.calls)) },
    openDatabase: faultDatabase(faults, (db) => {
      kept = { ...keptBy(db), changes: kept.changes + 1 };
    }),
  });
  const label = `${flow.name}: ${kind} at ${at} (${faults.calls[at - 1]})`;
  try {
    if (!faults.struck) return false;
    if (faults.isDead) {
      if (existsSync(privateOf(place))) copyState(saved, privateOf(place));
      for (const loss of ['vanished', 'names', 'some'] as const)
        await lookAfterCut(story, power, loss, label, kept, at);
    } else if (kind === 'short write') expect(ended, label).toEqual({ exitCode: 0, error: null });
    else if (ended.exitCode !== 0) {
      expect(ended, label).toEqual({ exitCode: 1, error: expect.stringMatching(sentenceShape) });
    }
    await lookAfter(story, place, label, kept, power);
    return true;
  } finally {
    ground.drop(place);
    ground.drop(saved);
  }
}

async function lookAfterCut(
  story: Story,
  power: PowerModel,
  loss: Loss,
  label: string,
  kept: KeptAt,
  seed: number,
): Promise<void> {
  const place = story.ground.fresh();
  try {
    cutInto(place, power, loss, seed);
    await lookAfter(story, place, `${label}, power cut: ${loss}`, kept);
  } finally {
    story.ground.drop(place);
  }
}

/** The place after a power cut; its databases are as they are. */
function cutInto(place: string, power: PowerModel, loss: Loss, seed = 0): void {
  power.cut(place, loss, drawFrom(seed));
  if (existsSync(privateOf(place))) copyState(privateOf(power.root), privateOf(place));
}

/** What must hold of a place that was left, at once and after the next command. */
async function lookAfter(story: Story, place: string, label: string, kept: KeptAt, power?: PowerModel): Promise<void> {
  const key = leavings(story, place, kept, power);
  if (story.seen.has(key)) return;
  story.seen.add(key);
  for (const [path, hash] of globbed(place))
    expect([story.old.get(path), story.next.get(path)], `${label}: ${path}`).toContain(hash);
  expect([...globbed(place).keys()], label).toEqual(expect.arrayContaining([...story.old.keys()]));
  expect(kept, label).toMatchObject(keptIn(place));
  if (existsSync(privateOf(place))) disown(join(place, 'archive'), deadPid);
  disownFiles(place, power?.calls.rename);
  await expectDone(again(story.flow, place, power), label);
  expect(await outcomeOf(place, story.runs), label).toEqual(story.wanted);
  if (power === undefined) return;
  const durable = story.ground.fresh();
  power.cut(durable, 'vanished');
  expect(filesFor(durable), `${label}, then once more and a power cut`).toEqual(filesFor(place));
  expect(existsSync(privateOf(durable)), label).toBe(true);
  story.ground.drop(durable);
}

/** sha256 by path of what must not be lost, other than databases. */
const filesFor = (place: string): Record<string, string> =>
  Object.fromEntries(
    filesBelow(place)
      .filter((path) => !path.startsWith('archive/.oddslake/') || path.includes('quarantine'))
      .map((path) => [path, hashOf(join(place, path))]),
  );

/** The same for what is the same to whoever opens it. */
function leavings({ ground }: Story, place: string, kept: KeptAt, power: PowerModel | undefined): string {
  const hash = createHash('sha256').update(JSON.stringify(kept));
  const add = (root: string): void => {
    for (const path of filesBelow(root))
      hash.update(path.includes('.sqlite') ? '' : `${path} ${hashOf(join(root, path))}\n`);
  };
  add(place);
  if (power !== undefined) {
    const durable = ground.fresh();
    power.cut(durable, 'vanished');
    add(durable);
    ground.drop(durable);
  }
  return hash.digest('hex');
}
