import { faultKinds } from './fault-points.ts';
import { copyTree } from './place.ts';
import { powerModel } from './power-loss.ts';
import type { Draw } from './seeds.ts';
import {
  cutPower,
  expectDone,
  expectKept,
  expectSaid,
  expectWhole,
  pretendGone,
  runAgain,
  runInto,
  type Story,
} from './story.ts';

/** Faults in a row at most: each strikes the command that was to make good the one before. */
const faultsMax = 4;

/** A flow that stumbles a few times on its way, each time over another fault, and gets there all the same. */
export async function stumble(story: Story, draw: Draw): Promise<void> {
  let place = story.ground.fresh();
  copyTree(story.before, place);
  let power = powerModel(place);
  const told: string[] = [];
  const turns = 1 + draw.below(faultsMax);
  for (let turn = 1; turn <= turns; turn++) {
    const planned = { at: 1 + draw.below(story.calls.length), kind: draw.one(faultKinds) };
    const left = await runInto(story, place, planned, power, turn);
    const { kept, struck, isDead } = left;
    told.push(`${planned.kind} at ${planned.at} (${struck ?? 'none'})`);
    expectSaid(story, left, planned.kind, told.join(', '));
    if (isDead && draw.chance(0.7)) {
      const loss = draw.one(['vanished', 'names', 'some'] as const);
      told.push(`power cut: ${loss}`);
      const after = cutPower(story, power, loss, draw.below(2 ** 31));
      story.ground.drop(place);
      place = after;
      power = powerModel(after);
    }
    expectKept(story, place, kept, told.join(', '));
    pretendGone(place, power);
  }
  const label = `${story.flow.name}: ${told.join(', ')}`;
  await expectDone(runAgain(story.flow, place, power), label);
  await expectWhole(story, place, label);
  const durable = cutPower(story, power, 'vanished');
  await expectWhole(story, durable, `${label}, then once more and a power cut`);
  story.ground.drop(place);
  story.ground.drop(durable);
}
