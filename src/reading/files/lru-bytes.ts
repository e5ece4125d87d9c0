/** Runs work, the rest waiting in the order in which it came. */
export type LimitConcurrency = <T>(work: () => Promise<T>) => Promise<T>;

/** At most `max` at once. */
export function createConcurrencyLimiter(max: number): LimitConcurrency {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (running < max) running++;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}
