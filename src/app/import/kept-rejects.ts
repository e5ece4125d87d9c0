import type { SetAside } from '../../state/imported-symbols.ts';

/** Rejected input of one file after the other on its way to the quarantine, which has so much room for each of them. */
export interface KeptRejects {
  /** Keeps it as received, or only counts it. */
  keep(item: SetAside): void;
  nextFile(): void;
  /** How many are kept and not taken yet. */
  readonly waiting: number;
  /** Takes what is kept, and how many more were counted, since the last call. */
  take(): { readonly items: readonly SetAside[]; readonly dropped: number };
}

/** @param fileBytesMax bytes of input, as received, that are kept of one file */
export function keepWithin(fileBytesMax: number): KeptRejects {
  let items: SetAside[] = [];
  let dropped = 0;
  let bytesLeft = fileBytesMax;
  return {
    keep(item) {
      const bytes = Buffer.byteLength(item.raw);
      if (bytes > bytesLeft) {
        // What is smaller and comes later does not fit either: a beginning is kept, not a choice.
        bytesLeft = 0;
        dropped++;
        return;
      }
      bytesLeft -= bytes;
      items.push(item);
    },
    nextFile() {
      bytesLeft = fileBytesMax;
    },
    get waiting() {
      return items.length;
    },
    take() {
      const taken = { items, dropped };
      items = [];
      dropped = 0;
      return taken;
    },
  };
}
