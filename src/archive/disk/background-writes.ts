/** Writes whose files are not durable yet. The first that fails makes all that follows fail. */
export type BackgroundWrites = ReturnType<typeof createBackgroundWrites>;

export function createBackgroundWrites() {
  const pending = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  const settle = async (pendingMax: number): Promise<void> => {
    while (pending.size > pendingMax) await Promise.race(pending);
  };
  return {
    add(write: Promise<void>) {
      const settled: Promise<void> = write
        .catch((error: unknown) => {
          failure ??= { error };
        })
        .finally(() => pending.delete(settled));
      pending.add(settled);
    },
    /**
     * Waits until at most `pendingMax` writes are pending.
     * @throws the error of the first write that failed
     */
    async wait(pendingMax: number) {
      await settle(pendingMax);
      if (failure !== undefined) throw failure.error;
    },
    /** Waits for all writes, whether they succeed or not. */
    settle: () => settle(0),
  };
}
