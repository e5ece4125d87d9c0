// Every call that changes something is a point, counted over disk and database in the one order in which they are made.
// At one of them a fault strikes.

/** The process is dead: thrown by the call that it died in, and by every call after that, whatever cleans up included. */
export class Crash extends Error {
  constructor(point: string) {
    super(`crash at ${point}`);
    this.name = 'Crash';
  }
}

export const faultKinds = [
  'crash before',
  'crash after',
  // The call fails, once; nothing of it was done.
  'EIO',
  'ENOSPC',
  // And every later call that takes space.
  'ENOSPC from then on',
  // A write that takes half of its bytes, and says so.
  'short write',
  // A write that takes half of its bytes, in which the process dies.
  'torn write',
] as const;
export type FaultKind = (typeof faultKinds)[number];

/** A kind of fault at the call of that number, from 1. */
export interface Planned {
  readonly at: number;
  readonly kind: FaultKind;
}

export interface Call<T> {
  /** What it is, e.g. `sync ticks`. */
  readonly name: string;
  readonly work: () => T;
  /** Whether it can meet a full disk. */
  readonly takesSpace: boolean;
  /** What the system would throw. */
  readonly failure: (code: 'EIO' | 'ENOSPC') => Error;
  /** The call half done; absent where it is whole or not at all. */
  readonly half?: (() => T) | undefined;
}

export interface Faults {
  /** Names of the calls so far. */
  readonly calls: readonly string[];
  /** Whether the planned fault came to pass; not where its kind does not fit its call. */
  readonly struck: boolean;
  readonly isDead: boolean;
  /** Makes a call, or lets the fault strike it. */
  point<T>(call: Call<T>): T;
}

/** @param onCrash called once, at the moment the process dies: what it left can be copied */
export function startFaults(planned: Planned | null = null, onCrash: () => void = () => {}): Faults {
  const calls: string[] = [];
  let struck = false;
  let isDead = false;
  let isFull = false;
  const die = (name: string): never => {
    isDead = true;
    onCrash();
    throw new Crash(`${calls.length} (${name})`);
  };
  return {
    calls,
    get struck() {
      return struck;
    },
    get isDead() {
      return isDead;
    },
    point<T>({ name, work, takesSpace, failure, half }: Call<T>): T {
      if (isDead) throw new Crash(name);
      calls.push(name);
      if (isFull && takesSpace) throw failure('ENOSPC');
      if (planned?.at !== calls.length) return work();
      const { kind } = planned;
      struck = !(kind.startsWith('ENOSPC') && !takesSpace) && !(kind.endsWith('write') && half === undefined);
      if (!struck) return work();
      if (kind === 'crash before') return die(name);
      if (kind === 'EIO') throw failure('EIO');
      if (kind === 'short write') return half!();
      if (kind === 'crash after') work();
      else if (kind === 'torn write') half!();
      else {
        isFull = kind === 'ENOSPC from then on';
        throw failure('ENOSPC');
      }
      return die(name);
    },
  };
}
