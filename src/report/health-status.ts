import { exitCodes } from '../core/errors.ts';
import { grouped } from '../core/format-thousands.ts';
import { dayStart, isoUtc } from '../core/time.ts';
import { type ArchiveState, isWhole } from '../core/verdict.ts';
import { verdictText } from '../core/verdict-text.ts';
import { dayMs } from '../core/window.ts';
import type { PastRun } from '../reading/report/past-run.ts';
import type { Gathered } from '../reading/report/report-data.ts';
import type { Growth } from './archive-growth.ts';
import { markOf, storyOf } from './run-marks.ts';
import { lengthOf, momentOf, sizeOf } from './time-spans.ts';

/** `act`: something is wrong and goes on being so. `look`: somebody should look at it. `note`: good to know. */
export type Severity = 'act' | 'look' | 'note';

export interface Finding {
  readonly severity: Severity;
  readonly text: string;
  /** What to do about it, as a sentence; null where nothing can or has to be done. */
  readonly action: string | null;
}

/** Whether all is well, and what to do next. */
export interface Verdict {
  readonly state: 'well' | 'look' | 'act' | 'empty';
  readonly headline: string;
  /** The one thing to do next; null where nothing has to be done. */
  readonly nextAction: string | null;
  /** The gravest first. */
  readonly findings: readonly Finding[];
}

const order: readonly Severity[] = ['act', 'look', 'note'];
const headlines = { act: 'Something has to be done', look: 'Worth a look' } as const;

/** What is said where nothing has to be done: no more than the judge of the archive says. */
const quietHeadlines: Readonly<Record<ArchiveState, string>> = {
  complete: 'All is well',
  empty: 'All is well',
  provisional: 'All is well, provisionally',
  complete_with_exceptions: 'All is well, with exceptions',
  incomplete: 'Nothing new, but the archive is incomplete',
  damaged: 'The archive is damaged',
};

/** Days before a full disk from which on it is told, and from which on it is urgent. */
const fullDaysLook = 30;
const fullDaysAct = 7;
/** Days for which an incomplete day is worth a look, once the run of the night after it is due. */
const recentDays = 7;

type Facts = Pick<Gathered, 'nowMs' | 'rules' | 'status' | 'runs' | 'lastNight' | 'gaps' | 'habits' | 'space' | 'days'>;

export function verdictOf(facts: Facts, growth: Growth): Verdict {
  const { runs, status } = facts;
  if (runs.length === 0 && status.generation === 0) {
    const nextAction = 'Start collecting: oddslake nightly';
    return { state: 'empty', headline: 'Nothing has been collected yet', nextAction, findings: [] };
  }
  const findings = [
    ...damageFindings(facts),
    ...runFindings(facts),
    ...lagFindings(facts),
    ...gapFindings(facts),
    ...wholeFindings(facts),
    ...diskFindings(facts, growth),
    ...habitFindings(facts),
  ].sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
  const worst = findings[0]?.severity ?? 'note';
  const told = runs.findLast(({ state }) => state === 'ended')?.summary?.nextAction;
  return {
    state: worst === 'note' ? 'well' : worst,
    headline: worst === 'note' ? quietHeadlines[status.verdict.state] : headlines[worst],
    // The last run knows best what came of it.
    nextAction: told ?? findings.find(({ action }) => action !== null)?.action ?? null,
    findings,
  };
}

const actions: Readonly<Record<number, string>> = {
  [exitCodes.usage]: 'Correct the settings that the error names, and run it again.',
  [exitCodes.credential]: 'Check ODDSLAKE_API_KEY or ODDSLAKE_API_KEY_FILE, and run oddslake nightly again.',
  [exitCodes.incomplete]: 'Run oddslake nightly again: it asks for what is missing.',
  [exitCodes.busy]: 'See which run holds the archive, and run it again when that one is over.',
  [exitCodes.damaged]: 'Mend it with oddslake verify --repair',
  [exitCodes.unreachable]: 'Check ODDSLAKE_BASE_URL and the network, and run oddslake nightly again.',
};

function damageFindings({ status }: Facts): Finding[] {
  const [first] = status.damaged;
  if (first === undefined) return [];
  const { path, kind, found_at: foundAt } = first;
  const text = `${counted(status.damaged_count, 'file')} not as published: ${path} (${kind}, found ${momentOf(foundAt)})${status.damaged_count > 1 ? ' and others' : ''}.`;
  return [{ severity: 'act', text, action: 'Mend it with oddslake verify --repair' }];
}

/** Of the last nightly and of the last run of all. */
function runFindings({ runs, lastNight }: Facts): Finding[] {
  const over = runs.filter(({ state }) => state !== 'under way');
  const night = over.findLast(({ job }) => job === 'nightly') ?? lastNight;
  return [...new Set([over.at(-1), night])].flatMap((run) => (run ? (runFinding(run) ?? []) : []));
}

function runFinding(run: PastRun): Finding | null {
  const { word, kind } = markOf(run);
  if (kind === 'good') return null;
  const story = storyOf(run);
  const text = `The last ${run.job} (${momentOf(run.startedAt)}): ${word}${story === '' ? '.' : `. ${story}`}`;
  if (kind === 'idle') return { severity: 'note', text, action: null };
  if (kind === 'fair') return { severity: 'look', text, action: null };
  const isGrave = kind === 'bad' && run.state === 'ended' && run.exitCode !== exitCodes.busy;
  const action = run.state === 'ended' ? actions[run.exitCode ?? 1] : undefined;
  return { severity: isGrave ? 'act' : 'look', text, action: action ?? `Run oddslake ${run.job} again.` };
}

function lagFindings({ nowMs, rules, runs, status }: Facts): Finding[] {
  if (status.lag_ms === null || status.lag_ms <= rules.lagMsMax) return [];
  const isRunning = runs.some(
    ({ exitCode, finishedAt }) =>
      (exitCode === exitCodes.done || exitCode === exitCodes.incomplete) && nowMs - finishedAt! <= rules.lagMsMax,
  );
  if (isRunning) {
    const text = `Jobs run, but some live symbol has had a hole in what is covered for ${lengthOf(status.lag_ms)}.`;
    return [{ severity: 'look', text, action: 'See which windows are missing with oddslake gaps' }];
  }
  const text = `Collecting lies ${lengthOf(status.lag_ms)} behind; ${lengthOf(rules.lagMsMax)} are allowed for.`;
  const action = 'Run oddslake nightly, and see whether its schedule is running.';
  return [{ severity: 'act', text, action }];
}

function gapFindings({ gaps }: Facts): Finding[] {
  const { recent, windows, symbols, lost, span } = gaps;
  const out: Finding[] = [];
  if (lost > 0) {
    const text = `${counted(lost, 'window')} of ticks that were published once ${lost === 1 ? 'is' : 'are'} lost.`;
    out.push({ severity: 'look', text, action: 'Have them again with oddslake verify --repair' });
  }
  if (windows > lost && span !== null) {
    const of = recent.windows > 0 ? recent : { windows, symbols };
    const when = recent.windows > 0 ? ' in the last days' : ', none of them in the last days';
    const text = `${counted(of.windows, 'gap')} in the lives of ${counted(of.symbols, 'symbol')}${when}.`;
    const action = `Ask again with oddslake backfill --from ${isoUtc(span.from)} --to ${isoUtc(span.to)}`;
    out.push({ severity: recent.windows > 0 ? 'look' : 'note', text, action: recent.windows > 0 ? action : null });
  }
  return out;
}

/** What the judge of the archive says beside gaps and damage. */
function wholeFindings({ status, days, nowMs }: Facts): Finding[] {
  const { verdict } = status;
  const out: Finding[] = [];
  const incomplete = days.filter((day) => !isWhole(day) && dayStart(day.date) + dayMs <= nowMs);
  const [latest] = incomplete.toReversed();
  if (latest !== undefined) {
    const isRecent = incomplete.some(
      ({ date }) => dayStart(date) >= nowMs - recentDays * dayMs && dayStart(date) + 2 * dayMs <= nowMs,
    );
    const text = `${counted(incomplete.length, 'day')} incomplete, the last of them ${latest.date}.`;
    const action = 'See what is missing with oddslake gaps, and which lists were cut off in the last summaries';
    out.push({ severity: isRecent ? 'look' : 'note', text, action: isRecent ? action : null });
  }
  if (verdict.suspended > 0) {
    const text = `${counted(verdict.suspended, 'active symbol')} suspended: the service says that it does not know them.`;
    out.push({ severity: 'look', text, action: 'See them with oddslake gaps; oddslake symbols retry asks at once' });
  }
  if (verdict.state === 'provisional') {
    const text = `The archive is ${verdictText(verdict)}. The next poll confirms what inference covers.`;
    out.push({ severity: 'note', text, action: null });
  }
  return out;
}

function diskFindings({ nowMs, space }: Facts, { fullAt, bytesPerDay }: Growth): Finding[] {
  if (space === null || fullAt === null || bytesPerDay === null) return [];
  const days = (fullAt - nowMs) / dayMs;
  if (days > fullDaysLook) return [];
  const text = `The disk is full in ${lengthOf(fullAt - nowMs)}: ${sizeOf(space.freeBytes)} free, ${sizeOf(bytesPerDay)} more a day.`;
  return [
    {
      severity: days <= fullDaysAct ? 'act' : 'look',
      text,
      action: 'Make room, or move the archive to a larger disk.',
    },
  ];
}

function habitFindings({ habits }: Facts): Finding[] {
  if (habits.error !== null) {
    const text = `The ticks could not be read: ${habits.error}`;
    return [{ severity: 'act', text, action: 'See what is damaged with oddslake verify' }];
  }
  const count = habits.silent.length;
  if (count === 0) return [];
  const text = `${counted(count, 'symbol')} that ticked regularly ${count === 1 ? 'is' : 'are'} silent.`;
  return [{ severity: 'note', text, action: null }];
}

const counted = (count: number, noun: string): string => `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`;
