import { exitCodes } from '../core/errors.ts';
import type { PastRun } from '../reading/report/past-run.ts';
import { shortened } from './time-spans.ts';

/** How a run is shown: never by its colour alone. */
export interface RunMark {
  readonly sign: string;
  readonly word: string;
  /** A class of the page's style. */
  readonly kind: 'good' | 'fair' | 'poor' | 'bad' | 'idle';
}

export const marks = {
  done: { sign: '✓', word: 'done', kind: 'good' },
  warned: { sign: '!', word: 'done, with warnings', kind: 'fair' },
  incomplete: { sign: '◐', word: 'incomplete', kind: 'poor' },
  failed: { sign: '✕', word: 'failed', kind: 'bad' },
  stopped: { sign: '–', word: 'stopped', kind: 'idle' },
  running: { sign: '…', word: 'under way', kind: 'idle' },
} as const satisfies Record<string, RunMark>;

const words: Readonly<Record<number, string>> = {
  [exitCodes.usage]: 'bad settings',
  [exitCodes.credential]: 'key refused',
  [exitCodes.busy]: 'another run was writing',
  [exitCodes.damaged]: 'archive damaged',
  [exitCodes.unreachable]: 'upstream unreachable',
};

/** What became of a run. */
export function markOf({ state, exitCode, summary }: Pick<PastRun, 'state' | 'exitCode' | 'summary'>): RunMark {
  if (state === 'under way') return marks.running;
  if (state === 'broken off') return { ...marks.failed, word: 'broken off' };
  switch (exitCode) {
    case exitCodes.done:
      return (summary?.warningsCount ?? 0) > 0 ? marks.warned : marks.done;
    case exitCodes.incomplete:
      return marks.incomplete;
    case exitCodes.interrupted:
    case exitCodes.terminated:
      return marks.stopped;
    default:
      return { ...marks.failed, word: words[exitCode ?? 1] ?? marks.failed.word };
  }
}

const lettersMax = 400;

/** What a run says of itself in one line: its error, else what it could not do, else its first warning; not all of a long one. */
export const storyOf = (run: Pick<PastRun, 'state' | 'summary'>): string => shortened(wholeStory(run), lettersMax);

function wholeStory({ state, summary }: Pick<PastRun, 'state' | 'summary'>): string {
  if (state === 'broken off') return 'Its process ended without a word; the next run takes up what it had accepted.';
  if (summary === null) return '';
  const { error, failures, failuresCount, warnings, warningsCount } = summary;
  if (error !== null) return error;
  const [failure] = failures;
  if (failure !== undefined)
    return `${failure.symbol === null ? '' : `${failure.symbol}: `}${failure.reason}${more(failuresCount - 1)}`;
  return warnings.length === 0 ? '' : `${warnings[0]}${more(warningsCount - 1)}`;
}

const more = (count: number): string => (count > 0 ? ` (and ${count} more)` : '');
