// Every call that changes something is a fault point, counted over disk and database in call order. A fault strikes at
// one of them.

/** The process is dead: thrown by the call it died in and by every later call, cleanup included. */
export class Crash extends Error {
  constructor(point: string) {
    super(`crash at ${point}`);
    this.name = 'Crash';
  }
}

export const faultKinds = [
  'crash before',
  'crash after',
  // The call fails once, without any effect.
  'EIO',
  // The call fails, as does every later call that needs space.
  'ENOSPC',
  // Only this call fails: another process has freed space.
  'ENOSPC once',
  // A write that writes half of its bytes and reports it.
  'short write',
  // A write that writes half of its bytes, after which the process dies.
  'torn write',
] as const;
export type FaultKind = (typeof faultKinds)[number];

/** A kind of fault at the call of that number, from 1. */
export interface Planned {
  readonly at: number;
  readonly kind: FaultKind;
}

export interface Call<T> {
  /** Name of the call, e.g. `sync ticks`. */
  readonly name: string;
  readonly work: () => T;
  /** Whether the call needs disk space. */
  readonly takesSpace: boolean;
  /** The error that the system would throw. */
  readonly failure: (code: 'EIO' | 'ENOSPC') => Error;
  /** Half of the call; undefined if it is atomic. */
  readonly half?: (() => T) | undefined;
}

export interface Faults {
  /** Names of the calls so far. */
  readonly calls: readonly string[];
  /** The kinds of fault that apply to each of these calls. */
  readonly kinds: readonly (readonly FaultKind[])[];
  /** Whether the planned fault happened; false if its kind does not apply to the call. */
  readonly struck: boolean;
  readonly isDead: boolean;
  /** Makes a call, or the fault instead. */
  point<T>(call: Call<T>): T;
}

/** Only calls that need space find the disk full, and only writes can write half. */
const applies = (kind: FaultKind, { takesSpace, half }: Call<unknown>): boolean =>
  !(kind.startsWith('ENOSPC') && !takesSpace) && !(kind.endsWith('write') && half === undefined);

/** @param onCrash called once when the process dies: the files can be copied then */
export function startFaults(planned: Planned | null = null, onCrash: () => void = () => {}): Faults {
  const calls: string[] = [];
  const kinds: FaultKind[][] = [];
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
    kinds,
    get struck() {
      return struck;
    },
    get isDead() {
      return isDead;
    },
    point<T>(call: Call<T>): T {
      const { name, work, takesSpace, failure, half } = call;
      if (isDead) throw new Crash(name);
      calls.push(name);
      kinds.push(faultKinds.filter((kind) => applies(kind, call)));
      if (isFull && takesSpace) throw failure('ENOSPC');
      if (planned?.at !== calls.length) return work();
      const { kind } = planned;
      struck = applies(kind, call);
      if (!struck) return work();
      if (kind === 'crash before') return die(name);
      if (kind === 'EIO') throw failure('EIO');
      if (kind === 'short write') return half!();
      if (kind === 'crash after') work();
      else if (kind === 'torn write') half!();
      else {
        isFull = kind === 'ENOSPC';
        throw failure('ENOSPC');
      }
      return die(name);
    },
  };
}
