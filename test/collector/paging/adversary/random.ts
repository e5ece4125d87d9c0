/** Random numbers from a seed. The same seed gives the same numbers on every machine (mulberry32). */
export interface Random {
  /** 0 to 1, 1 excluded. */
  share(): number;
  /** 0 to n, n excluded. */
  int(n: number): number;
  pick<T>(values: readonly T[]): T;
  /** True with the given probability. */
  chance(probability: number): boolean;
}

export function createSeededRandom(seed: number): Random {
  let state = seed >>> 0;
  const share = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4_294_967_296;
  };
  const int = (n: number): number => Math.floor(share() * n);
  return { share, int, pick: (values) => values[int(values.length)]!, chance: (probability) => share() < probability };
}
