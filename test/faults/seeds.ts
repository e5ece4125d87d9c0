import { expect } from 'vitest';
import { limitMs } from '../harness/limits.ts';

export { type Draw, drawFrom } from './draw.ts';

// The search for faults: so many seeds in any case, and more of them as long as time is given. A failure prints the line
// that repeats it.

/** Minutes to search for, over all tests together; 0: only what each does at least. */
const minutes = Number(process.env.MINUTES || 0);
/** How many seeds in place of what each search does at least. */
const seeds = process.env.SEEDS ? Number(process.env.SEEDS) : null;
const firstSeed = process.env.SEED ? Number(process.env.SEED) : Math.floor(Math.random() * 2 ** 31);

export interface Search {
  readonly name: string;
  /** Seeds tried at least. */
  readonly least: number;
  /** Share of MINUTES that this search may take; of all searches together about 2, as two files are run at a time. */
  readonly share: number;
}

/**
 * Runs `body` for seed after seed. What one throws is thrown on with the line that repeats it.
 * @returns how many seeds there were
 */
export async function search({ name, least, share }: Search, body: (seed: number) => Promise<void>): Promise<number> {
  const end = performance.now() + minutes * share * 60_000;
  let done = 0;
  for (let seed = firstSeed; ; seed = (seed + 1) % 2 ** 31) {
    try {
      await body(seed);
    } catch (error) {
      const again = `again with: SEED=${seed} SEEDS=1 make torture TEST_ARGS='${expect.getState().testPath ?? ''}'`;
      throw new Error(`${name}, seed ${seed}: ${error instanceof Error ? error.message : error}\n${again}`, {
        cause: error,
      });
    }
    done++;
    if (done >= (seeds ?? least) && (seeds !== null || performance.now() >= end)) break;
  }
  console.log(`${name}: ${done} seeds from ${firstSeed}`);
  return done;
}

/** Only a search that hangs takes longer; in ms. */
export const searchMsMax = minutes * 60_000 + 3 * limitMs;
