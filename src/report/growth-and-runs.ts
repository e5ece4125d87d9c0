import type { DiskSpace } from '../archive/disk/file-system.ts';
import { computeDailyGrowth } from '../archive/format/growth.ts';
import type { PastRun } from '../archive/journal/runs.ts';
import { exitCodes } from '../base/errors.ts';
import { shortenText } from '../base/format-quantity.ts';
import { formatDay, parseDayStart } from '../base/time.ts';
import { dayMs, floorToDay } from '../base/window.ts';
import type { DayTotals } from './data/report-data.ts';

/** How a run is displayed. Colour is never the only distinction. */
interface RunMark {
  readonly sign: string;
  readonly word: string;
  /** CSS class. */
  readonly kind: 'good' | 'fair' | 'poor' | 'bad' | 'idle';
}

export const runMarks = {
  done: { sign: '✓', word: 'done', kind: 'good' },
  warned: { sign: '!', word: 'done, with warnings', kind: 'fair' },
  incomplete: { sign: '◐', word: 'incomplete', kind: 'poor' },
  failed: { sign: '✕', word: 'failed', kind: 'bad' },
  stopped: { sign: '–', word: 'stopped', kind: 'idle' },
  running: { sign: '…', word: 'running', kind: 'idle' },
} as const satisfies Record<string, RunMark>;

const exitCodeWords: Readonly<Record<number, string>> = {
  [exitCodes.usage]: 'bad settings',
  [exitCodes.credential]: 'key rejected',
  [exitCodes.busy]: 'another run was writing',
  [exitCodes.damaged]: 'archive damaged',
  [exitCodes.unreachable]: 'upstream unreachable',
};

/** Returns how the outcome of a run is displayed. */
export function toRunMark({ state, exitCode, summary }: Pick<PastRun, 'state' | 'exitCode' | 'summary'>): RunMark {
  if (state === 'running') return runMarks.running;
  if (state === 'interrupted') return { ...runMarks.failed, word: 'interrupted' };
  switch (exitCode) {
    case exitCodes.done:
      return (summary?.findings ?? []).every(({ severity }) => severity === 'info') ? runMarks.done : runMarks.warned;
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

/** The verdict of a run, shortened to one line; empty while it runs. */
export const describeRun = ({ state, summary }: Pick<PastRun, 'state' | 'summary'>): string =>
  state === 'interrupted'
    ? 'Killed; the next run recovers what it accepted'
    : shortenText(summary?.verdict.text ?? '', lettersMax);

/** Growth of the published files. */
export interface ArchiveGrowth {
  /** Published bytes of all days up to each shown day; `t` is the UTC midnight at its end. */
  readonly sizes: readonly { readonly t: number; readonly bytes: number }[];
  /** Bytes per day; null if there are too few finished days. */
  readonly bytesPerDay: number | null;
  /** Number of finished days in the mean. */
  readonly days: number;
  /** Time at which the disk will be full, epoch ms; null if unknown or more than `yearsMax` ahead. */
  readonly fullAt: number | null;
}

/** Maximum forecast of a full disk, in years. */
const yearsMax = 10;

/**
 * Computes the growth, and from it when the disk will be full.
 * @param shownFrom start of the returned sizes, epoch ms
 */
export function computeGrowth(
  days: readonly Pick<DayTotals, 'date' | 'bytes'>[],
  space: DiskSpace | null,
  { nowMs, shownFrom, shownTo }: { readonly nowMs: number; readonly shownFrom: number; readonly shownTo: number },
): ArchiveGrowth {
  const sizes = sumSizesByDay(days, Math.max(floorToDay(nowMs) + dayMs, shownTo));
  const { bytesPerDay, days: meanDays } = computeDailyGrowth(days, nowMs) ?? { bytesPerDay: null, days: 0 };
  const fullInMs = space === null || !bytesPerDay ? null : (space.freeBytes / bytesPerDay) * dayMs;
  return {
    sizes: sizes.filter(({ t }) => t > shownFrom && t <= shownTo),
    bytesPerDay,
    days: meanDays,
    fullAt: fullInMs === null || fullInMs > yearsMax * 365.25 * dayMs ? null : nowMs + fullInMs,
  };
}

/** Cumulative sizes from the first day, including days without files. */
function sumSizesByDay(days: readonly Pick<DayTotals, 'date' | 'bytes'>[], to: number): { t: number; bytes: number }[] {
  if (days.length === 0) return [];
  const byDate = new Map(days.map(({ date, bytes }) => [date, bytes]));
  const out: { t: number; bytes: number }[] = [];
  let bytes = 0;
  for (let day = parseDayStart(days[0]!.date); day < to; day += dayMs) {
    bytes += byDate.get(formatDay(day)) ?? 0;
    out.push({ t: day + dayMs, bytes });
  }
  return out;
}
