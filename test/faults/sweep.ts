import { createHash, hash as hashBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { FaultKind } from './fault-points.ts';
import { copyTree, filesBelow, hashOf, privateOf } from './place.ts';
import { type Loss, type PowerModel, powerModel } from './power-loss.ts';
import { drawFrom } from './seeds.ts';
import {
  type AcceptedAt,
  expectComplete,
  expectDone,
  expectInvariants,
  expectMessage,
  losePower,
  orphanProcess,
  runAgain,
  runInto,
  type Story,
} from './story.ts';

interface SweepResult {
  /** Calls that were struck. */
  readonly calls: number;
  /** Faults that happened. */
  readonly faults: number;
  /** Distinct states after faults that were reopened. */
  readonly reopened: number;
}

/** Lets every kind of fault strike these calls of a flow, counted from 1, and checks the resulting state. */
export async function sweep(story: Story, calls: Iterable<number>): Promise<SweepResult> {
  const seen: Seen = { states: new Set(), cuts: new Set() };
  let faults = 0;
  let struckCalls = 0;
  const points = story.calls.length;
  for (const at of calls) {
    struckCalls++;
    for (const kind of story.kinds[at - 1]!) {
      // Dying after a call equals dying before the next.
      if (kind === 'crash after' && at < points) continue;
      // Left to the faults in a row: it has the effect of EIO with another message.
      if (kind === 'ENOSPC once') continue;
      await strike(story, at, kind, seen);
      faults++;
    }
  }
  return { calls: struckCalls, faults, reopened: seen.states.size };
}

interface Seen {
  /** States that were reopened, and what power losses left. */
  readonly states: Set<string>;
  readonly cuts: Set<string>;
}

async function strike(story: Story, at: number, kind: FaultKind, seen: Seen): Promise<void> {
  const place = story.places.fresh();
  copyTree(story.before, place);
  const power = powerModel(place);
  const state = await runInto(story, place, { at, kind }, power);
  const { kept, struck, isDead } = state;
  const label = `${story.flow.name}: ${kind} at ${at} (${struck})`;
  try {
    expect(struck, label).not.toBeNull();
    if (isDead) {
      for (const loss of ['vanished', 'names', 'some'] as const) {
        const cut = hashCut(power, kept, loss, at);
        if (seen.cuts.has(cut)) continue;
        seen.cuts.add(cut);
        const after = losePower(story, power, loss, at);
        await checkAfter(story, seen, powerModel(after), kept, `${label}, power loss: ${loss}`);
        story.places.drop(after);
      }
    }
    expectMessage(story, state, kind, label);
    await checkAfter(story, seen, power, kept, label);
  } finally {
    story.places.drop(place);
  }
}

/** Invariants of a place after the fault, after the next command, and after a power loss then. */
async function checkAfter(story: Story, seen: Seen, power: PowerModel, kept: AcceptedAt, label: string): Promise<void> {
  const key = hashState(power, kept);
  if (seen.states.has(key)) return;
  seen.states.add(key);
  const place = power.root;
  expectInvariants(story, place, kept, label);
  orphanProcess(place, power);
  await expectDone(runAgain(story.flow, place, power), label);
  await expectComplete(story, place, label);
  const durable = losePower(story, power, 'vanished');
  expect(filesFor(durable), `${label}, then once more and a power loss`).toEqual(filesFor(place));
  expect(existsSync(privateOf(durable)), label).toBe(true);
  story.places.drop(durable);
}

/** sha256 by path of what must not be lost, except databases. */
const filesFor = (place: string): Record<string, string> =>
  Object.fromEntries(
    filesBelow(place)
      .filter((path) => !path.startsWith('archive/.oddslake/') || path.startsWith('archive/.oddslake/quarantine/'))
      .map((path) => [path, hashOf(join(place, path))]),
  );

/** Equal keys for power losses that leave equal states: those are not created again only to see that. */
function hashCut(power: PowerModel, kept: AcceptedAt, loss: Loss, at: number): string {
  const hasState =
    existsSync(privateOf(power.root)) && filesBelow(privateOf(power.root)).some((path) => path.includes('.sqlite'));
  const hash = createHash('sha256').update(JSON.stringify([kept, hasState]));
  for (const entry of power.listCut(loss, drawFrom(at))) {
    const { path, kind } = entry;
    hash.update(
      `${kind} ${path} ${kind === 'file' ? hashBytes('sha256', entry.bytes) : kind === 'link' ? entry.to : ''}\n`,
    );
  }
  return hash.digest('hex');
}

/** Equal keys for states that behave equally now or after a power loss. */
function hashState(power: PowerModel, kept: AcceptedAt): string {
  const hash = createHash('sha256').update(JSON.stringify(kept));
  for (const path of filesBelow(power.root)) {
    // The content of the state depends only on the number of its changes.
    if (!path.includes('.sqlite')) hash.update(`${path} ${hashOf(join(power.root, path))}\n`);
  }
  hash.update('durable\n');
  for (const [path, bytes] of power.listDurable())
    hash.update(`${path} ${bytes === null ? '' : hashBytes('sha256', bytes)}\n`);
  return hash.digest('hex');
}
