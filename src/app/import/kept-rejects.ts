import type { QuarantinedInput } from '../../state/imported-symbols.ts';

/** Rejected input of one file after the other on its way to the quarantine, which has so much room for each of them. */
export interface RejectBuffer {
  /** Keeps it as received, or only counts it. */
  add(item: QuarantinedInput): void;
  nextFile(): void;
  /** How many are kept and not taken yet. */
  readonly pendingCount: number;
  /** Takes what is kept, and how many more were counted, since the last call. */
  drain(): { readonly items: readonly QuarantinedInput[]; readonly dropped: number };
}

/** @param fileBytesMax bytes of input, as received, that are kept of one file */
export function createRejectBuffer(fileBytesMax: number): RejectBuffer {
  let items: QuarantinedInput[] = [];
  let dropped = 0;
  let bytesLeft = fileBytesMax;
  return {
    add(item) {
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
    get pendingCount() {
      return items.length;
    },
    drain() {
      const taken = { items, dropped };
      items = [];
      dropped = 0;
      return taken;
    },
  };
}
