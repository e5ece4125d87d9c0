/** At most `concurrency` at a time; the first error stops the rest and is thrown once those under way are over. */
export async function forEachConcurrent<T>(
  concurrency: number,
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  let broken = false;
  const worker = async (): Promise<void> => {
    while (next < items.length && !broken) {
      try {
        await work(items[next++]!);
      } catch (error) {
        broken = true;
        throw error;
      }
    }
  };
  const results = await Promise.allSettled(Array.from({ length: Math.min(concurrency, items.length) }, worker));
  const bad = results.find((result) => result.status === 'rejected');
  if (bad !== undefined) throw bad.reason;
}
