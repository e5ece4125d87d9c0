import { expect } from 'vitest';
import { limitMs } from '../harness/limits.ts';

export { type Draw, drawFrom } from './draw.ts';

// The search for faults: a minimum number of seeds, and more of them as time permits. A failure prints the command that
// repeats it.

/** Minutes to search, over all tests together; 0: only the minimum of each. */
const minutes = Number(process.env.MINUTES || 0);
/** Number of seeds instead of the minimum of each search. */
const seeds = process.env.SEEDS ? Number(process.env.SEEDS) : null;
const firstSeed = process.env.SEED ? Number(process.env.SEED) : Math.floor(Math.random() * 2 ** 31);

export interface Search {
  readonly name: string;
  /** Minimum number of seeds. */
  readonly least: number;
  /**
   * Share of MINUTES that this search may take; over all searches the sum is about 2, because two files run at a time.
   */
  readonly share: number;
}

/**
 * Runs `body` for one seed after another. Rethrows errors with the command that repeats them.
 * @returns the number of seeds
 */
export async function search({ name, least, share }: Search, body: (seed: number) => Promise<void>): Promise<number> {
  const end = performance.now() + minutes * share * 60_000;
  let done = 0;
  for (let seed = firstSeed; ; seed = (seed + 1) % 2 ** 31) {
    try {
      await body(seed);
    } catch (error) {
      const again = `repeat with: SEED=${seed} SEEDS=1 make torture TEST_ARGS='${expect.getState().testPath ?? ''}'`;
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

/** Exceeded only by a search that hangs; in ms. */
export const searchMsMax = minutes * 60_000 + 3 * limitMs;
