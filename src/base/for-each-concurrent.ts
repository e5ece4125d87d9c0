/**
 * Runs `work` on at most `concurrency` items at a time. An error stops the rest, and is thrown after the running ones
 * have finished.
 */
export async function forEachConcurrent<T>(
  concurrency: number,
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  let hasFailed = false;
  const worker = async (): Promise<void> => {
    while (next < items.length && !hasFailed) {
      try {
        await work(items[next++]!);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  const results = await Promise.allSettled(Array.from({ length: Math.min(concurrency, items.length) }, worker));
  const rejected = results.find((result) => result.status === 'rejected');
  if (rejected !== undefined) throw rejected.reason;
}

/**
 * Starts work on at most `concurrency` items at a time, and finishes the items one after the other in their order. An
 * error of `finish` is thrown at once, while others may still run.
 * @param start returns undefined to skip an item
 */
export async function finishInOrder<T, R>(
  concurrency: number,
  items: Iterable<T>,
  start: (item: T) => Promise<R> | undefined,
  finish: (item: T, settled: PromiseSettledResult<R>) => Promise<void>,
): Promise<void> {
  const pending: (readonly [item: T, done: Promise<[PromiseSettledResult<R>]>])[] = [];
  async function finishNext(): Promise<void> {
    const [item, done] = pending.shift()!;
    const [settled] = await done;
    await finish(item, settled);
  }
  for (const item of items) {
    while (pending.length >= concurrency) await finishNext();
    const done = start(item);
    // Handles a rejection before its item is finished.
    if (done !== undefined) pending.push([item, Promise.allSettled([done])]);
  }
  while (pending.length > 0) await finishNext();
}
