import { exitCodes } from '../core/errors.ts';
import type { PastRun } from '../reading/report/past-run.ts';
import { shortenText } from './time-spans.ts';

/** How a run is shown: never by its colour alone. */
export interface RunMark {
  readonly sign: string;
  readonly word: string;
  /** A class of the page's style. */
  readonly kind: 'good' | 'fair' | 'poor' | 'bad' | 'idle';
}

export const runMarks = {
  done: { sign: '✓', word: 'done', kind: 'good' },
  warned: { sign: '!', word: 'done, with warnings', kind: 'fair' },
  incomplete: { sign: '◐', word: 'incomplete', kind: 'poor' },
  failed: { sign: '✕', word: 'failed', kind: 'bad' },
  stopped: { sign: '–', word: 'stopped', kind: 'idle' },
  running: { sign: '…', word: 'under way', kind: 'idle' },
} as const satisfies Record<string, RunMark>;

const exitCodeWords: Readonly<Record<number, string>> = {
  [exitCodes.usage]: 'bad settings',
  [exitCodes.credential]: 'key refused',
  [exitCodes.busy]: 'another run was writing',
  [exitCodes.damaged]: 'archive damaged',
  [exitCodes.unreachable]: 'upstream unreachable',
};

/** What became of a run. */
export function toRunMark({ state, exitCode, summary }: Pick<PastRun, 'state' | 'exitCode' | 'summary'>): RunMark {
  if (state === 'under way') return runMarks.running;
  if (state === 'broken off') return { ...runMarks.failed, word: 'broken off' };
  switch (exitCode) {
    case exitCodes.done:
      return (summary?.warningsCount ?? 0) > 0 ? runMarks.warned : runMarks.done;
    case exitCodes.incomplete:
      return runMarks.incomplete;
    case exitCodes.interrupted:
    case exitCodes.terminated:
      return runMarks.stopped;
    default:
      return { ...runMarks.failed, word: exitCodeWords[exitCode ?? 1] ?? runMarks.failed.word };
  }
}

const lettersMax = 400;

/** What a run says of itself in one line: its error, else what it could not do, else its first warning; not all of a long one. */
export const describeRun = (run: Pick<PastRun, 'state' | 'summary'>): string =>
  shortenText(describeRunInFull(run), lettersMax);

function describeRunInFull({ state, summary }: Pick<PastRun, 'state' | 'summary'>): string {
  if (state === 'broken off') return 'Its process ended without a word; the next run takes up what it had accepted.';
  if (summary === null) return '';
  const { error, failures, failuresCount, warnings, warningsCount } = summary;
  if (error !== null) return error;
  const [failure] = failures;
  if (failure !== undefined)
    return `${failure.symbol === null ? '' : `${failure.symbol}: `}${failure.reason}${formatMore(failuresCount - 1)}`;
  return warnings.length === 0 ? '' : `${warnings[0]}${formatMore(warningsCount - 1)}`;
}

const formatMore = (count: number): string => (count > 0 ? ` (and ${count} more)` : '');
