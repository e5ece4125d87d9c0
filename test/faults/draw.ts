/** Random numbers in [0, 1), determined by the seed. */
export type Draw = (() => number) & {
  /** An integer in [0, below). */
  below(limit: number): number;
  one<T>(of: readonly T[]): T;
  chance(share: number): boolean;
};

/** Source: mulberry32, Tommy Ettinger, public domain. */
export function drawFrom(seed: number): Draw {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
  return Object.assign(next, {
    below: (limit: number) => Math.floor(next() * limit),
    one: <T>(of: readonly T[]): T => of[Math.floor(next() * of.length)]!,
    chance: (share: number) => next() < share,
  });
}
