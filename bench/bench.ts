import type { Accounting } from './measure.ts';
import type { Peers } from './peers.ts';

/** What every benchmark works with. */
export interface Bench {
  readonly launcher: string;
  /** A folder for inputs and outputs, removed in the end. */
  readonly folder: string;
  /** Of the programs that are measured: none of the user's own settings of oddslake. */
  readonly env: NodeJS.ProcessEnv;
  readonly accounting: Accounting;
  /** Counted runs of each program. */
  readonly runs: number;
  readonly seed: number;
  readonly peers: Peers;
  tell(line: string): void;
}
