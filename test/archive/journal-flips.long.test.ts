import { expect, test } from 'vitest';
import { drawFrom } from '../faults/draw.ts';
import { type FlipOutcome, flipLake } from '../faults/journal-flips.ts';
import { scratchFolder } from './scratch.ts';

/** The number of flipped bits; FLIPS=2000 for the long search. */
const flips = Number(process.env.FLIPS || 120);

test('a flipped bit of the journal is never published', async () => {
  const archive = await flipLake(scratchFolder());
  const draw = drawFrom(18);
  const outcomes: Record<FlipOutcome, number> = { whole: 0, quarantined: 0, refused: 0 };
  const failures: string[] = [];
  for (let n = 0; n < flips; n++) {
    const flipped = await (n % 2 === 0 ? archive.flipPage(draw) : archive.flipValue(draw));
    outcomes[flipped.outcome]++;
    failures.push(...flipped.wrong.map((fault) => `${flipped.what}: ${fault}`));
  }
  expect(failures).toEqual([]);
  expect(outcomes.quarantined).toBeGreaterThan(flips / 4);
  if (flips > 120) console.info(outcomes);
});
