import { expect } from 'vitest';
import { limitMs } from '../harness/limits.ts';
import { drawFrom } from './draw.ts';

export { type Draw, drawFrom } from './draw.ts';

// The search for faults. Without MINUTES every search tries its minimum number of seeds. With MINUTES it goes on until its
// share of that time is over, and tries at least one seed: it never fails for lack of time. A failure prints the command
// that repeats it.

/** Minutes to search, over all tests together; 0: the minimum number of seeds of each search instead. */
const minutes = Number(process.env.MINUTES || 0);
/** When the search ends, in epoch ms, if there is a time: set by vitest.torture.config.ts for all its processes. */
const searchEnd = Number(process.env.SEARCH_END || Date.now() + minutes * 60_000);
/** Number of seeds instead of the minimum of each search. */
const seeds = process.env.SEEDS ? Number(process.env.SEEDS) : null;
/** SEED, or what vitest.torture.config.ts drew. Tests without a search have seeds of their own if SEED is not set. */
const firstSeed = Number(process.env.SEARCH_SEED || process.env.SEED || Math.floor(Math.random() * 2 ** 31));
/** A call of each sweep, counted from 1, or all of them. */
const swept = process.env.SWEEP;

interface Search {
  readonly name: string;
  /** Minimum number of seeds, unless MINUTES is set. */
  readonly least: number;
  /**
   * Share of MINUTES that this search may take, or all that is left: the file is then among the last ones of
   * vitest.torture.config.ts. The sum of the shares is about 0.85, of 2, because two files run at a time.
   */
  readonly share: Share;
}

type Share = number | 'rest';

/** Whether a search that began at `startMs` has time left; always false without MINUTES. */
const hasTime = (startMs: number, share: Share): boolean =>
  Date.now() < searchEnd && (share === 'rest' || performance.now() < startMs + minutes * share * 60_000);

/**
 * Runs `body` for one seed after another. Rethrows errors with the command that repeats them.
 * @returns the number of seeds
 */
export async function search({ name, least, share }: Search, body: (seed: number) => Promise<void>): Promise<number> {
  const started = performance.now();
  const atLeast = seeds ?? (minutes > 0 ? 1 : least);
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
    if (done >= atLeast && (seeds !== null || !hasTime(started, share))) break;
  }
  console.log(`${name}: ${done} seeds from ${firstSeed}`);
  return done;
}

/**
 * The calls of a deterministic sweep, from 1 to `count`: with MINUTES a slice of them, drawn by the seed and as large as the
 * time allows; otherwise every `step`th and the last one. SWEEP=all takes all of them, SWEEP=7 only that one.
 */
export function* listSweptCalls(name: string, count: number, step: number, share: Share): Generator<number> {
  const calls = Array.from({ length: count }, (_, i) => i + 1);
  if (swept !== undefined && swept !== '' && swept !== 'all') {
    yield Number(swept);
    return;
  }
  if (minutes === 0 || swept === 'all') {
    yield* calls.filter((call) => swept === 'all' || call % step === 0 || call === count);
    return;
  }
  const started = performance.now();
  const draw = drawFrom(firstSeed);
  let done = 0;
  do {
    done++;
    yield calls.splice(draw.below(calls.length), 1)[0]!;
  } while (calls.length > 0 && hasTime(started, share));
  console.log(`${name}: ${done} of ${count} calls, drawn by SEED=${firstSeed}`);
}

/** Exceeded only by a search that hangs; in ms. */
export const searchMsMax = minutes * 60_000 + 3 * limitMs;
