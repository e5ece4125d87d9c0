/** Numbers in (0, 1) that are the same in every run: Lehmer's generator with modulus 2^31 - 1. */
export function createSeededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}
