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
