/** What readers hold of the memory: thrown out of it, bytes live on until the slowest reader is done. */
export interface ByteBudget {
  /** Whether `bytes` more may be lent, or these are already. */
  hasRoom(key: string, bytes: number): boolean;
  /** Returns what gives it back, to be called once or more often. */
  acquire(key: string, bytes: number): () => void;
}

/** @param bytesMax what may be lent together, each key counted once */
export function createByteBudget(bytesMax: number): ByteBudget {
  const readers = new Map<string, number>();
  let lent = 0;
  const giveBack = (key: string, bytes: number): void => {
    const left = readers.get(key)! - 1;
    if (left > 0) return void readers.set(key, left);
    readers.delete(key);
    lent -= bytes;
  };
  return {
    hasRoom: (key, bytes) => readers.has(key) || lent + bytes <= bytesMax,
    acquire(key, bytes) {
      const count = readers.get(key) ?? 0;
      readers.set(key, count + 1);
      if (count === 0) lent += bytes;
      let isOut = true;
      return () => {
        if (isOut) giveBack(key, bytes);
        isOut = false;
      };
    },
  };
}
