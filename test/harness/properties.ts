import fc from 'fast-check';
import { onTestFailed } from 'vitest';

// Properties that hold for random inputs.

/** SEED, or another one in every process. */
const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));

/** The seed of what a file draws itself. It is printed, so that SEED can repeat it. */
export function printSeed(name: string): number {
  console.log(`${name}: SEED=${seed}`);
  return seed;
}

type Arbitraries<Ts> = { readonly [K in keyof Ts]: fc.Arbitrary<Ts[K]> };
type Inputs = [unknown, ...unknown[]];

/** Options of so many runs, rounded up. A test that fails prints its seed, also if it reaches its time limit. */
function createParameters(runs: number) {
  onTestFailed(() => console.log(`repeat with: SEED=${seed}`));
  return { seed, numRuns: Math.ceil(runs) };
}

export function checkProperty<Ts extends Inputs>(
  inputs: Arbitraries<Ts>,
  runs: number,
  property: (...input: Ts) => void,
): void {
  fc.assert(fc.property<Ts>(...inputs, property), createParameters(runs));
}

export async function checkAsyncProperty<Ts extends Inputs>(
  inputs: Arbitraries<Ts>,
  runs: number,
  property: (...input: Ts) => Promise<void>,
): Promise<void> {
  await fc.assert(fc.asyncProperty<Ts>(...inputs, property), createParameters(runs));
}
