/** Writes whose files are not durable yet. The first that fails makes all that follows fail. */
export interface BackgroundWrites {
  add(write: Promise<void>): void;
  /**
   * Waits until at most `pendingMax` writes are pending.
   * @throws the error of the first write that failed
   */
  wait(pendingMax: number): Promise<void>;
  /** Waits for all writes, whether they succeed or not. */
  settle(): Promise<void>;
}

export function createBackgroundWrites(): BackgroundWrites {
  const pending = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  const settle = async (pendingMax: number): Promise<void> => {
    while (pending.size > pendingMax) await Promise.race(pending);
  };
  return {
    add(write) {
      const settled: Promise<void> = write
        .catch((error: unknown) => {
          failure ??= { error };
        })
        .finally(() => pending.delete(settled));
      pending.add(settled);
    },
    async wait(pendingMax) {
      await settle(pendingMax);
      if (failure !== undefined) throw failure.error;
    },
    settle: () => settle(0),
  };
}
