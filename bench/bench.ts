import type { Accounting } from './measure.ts';
import type { Peers } from './peers.ts';

/** The environment that every benchmark runs in. */
export interface Bench {
  readonly launcher: string;
  /** A folder for inputs and outputs. Removed at the end. */
  readonly folder: string;
  /** Environment of the measured programs, without the user's own oddslake settings. */
  readonly env: NodeJS.ProcessEnv;
  readonly accounting: Accounting;
  /** Counted runs per program. */
  readonly runs: number;
  readonly seed: number;
  readonly peers: Peers;
  tell(line: string): void;
}
