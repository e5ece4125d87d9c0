import { faultKinds } from './fault-points.ts';
import { copyTree } from './place.ts';
import { powerModel } from './power-loss.ts';
import type { Draw } from './seeds.ts';
import {
  expectComplete,
  expectDone,
  expectInvariants,
  expectMessage,
  expectRowInvariants,
  losePower,
  orphanProcess,
  runAgain,
  runInto,
  type Story,
} from './story.ts';

/** Maximum faults in a row: each strikes the command that recovers from the previous one. */
const faultsMax = 4;

/** A flow completes after several faults in a row, a different one each time. */
export async function stumble(story: Story, draw: Draw): Promise<void> {
  let place = story.places.fresh();
  copyTree(story.before, place);
  let power = powerModel(place);
  const steps: string[] = [];
  const rounds = 1 + draw.below(faultsMax);
  for (let round = 1; round <= rounds; round++) {
    const planned = { at: 1 + draw.below(story.calls.length), kind: draw.one(faultKinds) };
    const state = await runInto(story, place, planned, power, round);
    const { kept, struck, isDead } = state;
    steps.push(`${planned.kind} at ${planned.at} (${struck ?? 'none'})`);
    expectMessage(story, state, planned.kind, steps.join(', '));
    if (isDead && draw.chance(0.7)) {
      const loss = draw.one(['vanished', 'names', 'some'] as const);
      steps.push(`power loss: ${loss}`);
      const after = losePower(story, power, loss, draw.below(2 ** 31));
      story.places.drop(place);
      place = after;
      power = powerModel(after);
    }
    const expectState = story.flow.asks ? expectRowInvariants : expectInvariants;
    expectState(story, place, kept, steps.join(', '));
    orphanProcess(place, power);
  }
  const label = `${story.flow.name}: ${steps.join(', ')}`;
  await expectDone(runAgain(story.flow, place, power), label);
  await expectComplete(story, place, label);
  const durable = losePower(story, power, 'vanished');
  await expectComplete(story, durable, `${label}, then once more and a power loss`);
  story.places.drop(place);
  story.places.drop(durable);
}
