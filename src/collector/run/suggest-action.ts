import { join, relative } from 'node:path';
import { toQuarantinePath } from '../../archive/format/layout.ts';
import { DiskFullError, exitCodes } from '../../base/errors.ts';
import { formatDay, formatIsoUtc } from '../../base/time.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import type { Run } from './run.ts';
import type { FailureLine, Summary } from './summary.ts';

/** What of a run its summary does not say. */
export interface ActionFacts {
  /** What ended it early, if anything did. */
  readonly thrown: unknown;
  /** All that failed, of which the summary lists the first. */
  readonly failures: readonly FailureLine[];
  /** Whether markets or ticks fell sharply against the last nights. */
  readonly hasSharpDrop: boolean;
  /** Symbols that are overdue by more than a day. */
  readonly longOverdueSymbols: readonly string[];
  /** Flags by which a command finds this archive and its settings from the working folder, with a blank before them; empty where it needs none. */
  readonly flags: string;
  /** The words of the command line of the run; null where nobody typed any. */
  readonly argv: readonly string[] | null;
  /** Where the run put what it set aside. */
  readonly quarantinePath: string;
}

/** Conflicts that are many: more than so many times the usual, and no fewer than so many. */
const conflictsFactor = 3;
const conflictsMin = 100;

/**
 * The one thing to do next after a run, as a sentence that ends with its command; null where nothing has to be done. What
 * keeps the archive from being written comes before what it lacks, and that before what is worth a look.
 */
export function suggestNextAction(summary: Summary, facts: ActionFacts): string | null {
  const { flags } = facts;
  return (
    suggestAfterEarlyEnd(summary, facts) ??
    suggestForMissing(summary, facts) ??
    suggestInspection(summary, facts, flags)
  );
}

function suggestAfterEarlyEnd(summary: Summary, { thrown, flags, argv }: ActionFacts): string | null {
  const { exit_code: code } = summary;
  const again = formatRerunCommand(summary, flags, argv);
  if (code === exitCodes.usage) return null;
  if (thrown instanceof DiskFullError) return `Free some space on the disk, then run it again: ${again}`;
  if (code === exitCodes.credential) return `Set a key that the service takes, then run it again: ${again}`;
  if (code === exitCodes.damaged) return `Mend the archive: oddslake verify --repair${flags}`;
  if (code === exitCodes.busy)
    return `Once the other run is over, publish what this one collected: oddslake publish${flags}`;
  if (code === exitCodes.unreachable) return `Once the service can be reached, run it again: ${again}`;
  if (code === exitCodes.interrupted || code === exitCodes.terminated) return `Go on where this run stopped: ${again}`;
  if (code === exitCodes.unexpected) return `Look at how it came about: ${again} --log-level debug`;
  return null;
}

function suggestForMissing(summary: Summary, { failures, hasSharpDrop, flags, argv }: ActionFacts): string | null {
  const { job } = summary;
  const help = failures.map(({ reason }) => helpfulFlagPattern.exec(reason)?.[1]).find((found) => found !== undefined);
  if (job === 'import' && argv !== null && help !== undefined)
    return `Import the files with the flag that helps: ${formatRerunCommand(summary, flags, argv)} ${help}`;
  const windows = failures.filter(({ symbol, reason }) => symbol !== null && !reason.startsWith('order book: '));
  const lost = windows.filter(({ reason }) => reason.startsWith('lost: '));
  const suspended = windows.filter(({ reason }) => reason.startsWith('suspended: '));
  const settled = windows.filter(({ reason }) => /^(accepted as a gap|expired): /.test(reason));
  const others = new Set([...lost, ...suspended, ...settled]);
  const asked = windows.filter((window) => !others.has(window));
  if (asked.length > 0) {
    const next =
      job === 'nightly' || job === 'ticks'
        ? 'The next run asks again for what is missing, or now'
        : 'Ask again for what is missing';
    return `${next}: ${formatBackfillCommand(asked)}${flags}`;
  }
  if (lost.length > 0) return `See what stays lost: oddslake gaps${flags}`;
  if (settled.length > 0) return `See which gaps stay: oddslake gaps${flags}`;
  if (suspended.length > 0 || failures.some(({ reason }) => reason.includes('active ones suspended')))
    return `Ask for the suspended symbols at once: oddslake symbols retry${flags}`;
  if (hasSharpDrop)
    return `See whether the service lacks it too; what it has by then is asked for again by: oddslake backfill --force ${formatLastDaysFlags(summary)}${flags}`;
  const lists = failures.some(({ reason }) => reason.startsWith('markets'));
  if (lists) return `Ask for the market lists again: oddslake markets${flags}`;
  if (failures.length > 0 && summary.orderbooks.failed > 0)
    return `Ask for the order books again: oddslake orderbook${flags}`;
  return null;
}

function suggestInspection({ night, ticks }: Summary, facts: ActionFacts, flags: string): string | null {
  const conflicts = night?.ticks.conflicts;
  if (
    conflicts !== undefined &&
    conflicts.median !== null &&
    conflicts.count >= conflictsMin &&
    conflicts.count > conflictsFactor * conflicts.median
  )
    return `See which symbols have so many conflicts: oddslake sql "SELECT symbol, count(*) AS n FROM conflicts GROUP BY 1 ORDER BY 2 DESC LIMIT 20"${flags}`;
  if (ticks.quarantined > 0)
    return `See what was set aside, and why: gzip -dc ${quoteShellWord(facts.quarantinePath)} | head`;
  const [first] = facts.longOverdueSymbols;
  if (first !== undefined)
    return `See what is known of the market that is overdue the longest: oddslake symbols ${quoteShellWord(first)}${flags}`;
  return null;
}

/** The flags that a failure of an import names: see import/step.ts. */
const helpfulFlagPattern = / Say (--[\w -]+)\. --allow-rejected/;

/** The command of a run as it was typed; where nobody typed one, the command of its job. */
function formatRerunCommand({ job }: Summary, flags: string, words: readonly string[] | null): string {
  if (words !== null) return `oddslake ${words.map(quoteShellWord).join(' ')}`;
  if (job === 'repair') return `oddslake verify --repair${flags}`;
  // These two do nothing without being told what.
  const more = job === 'backfill' || job === 'import' ? ' …' : '';
  return `oddslake ${job}${flags}${more}`;
}

/** Asks for the windows, and hardly more: of one symbol by its name, of several by the span of all. */
function formatBackfillCommand(windows: readonly FailureLine[]): string {
  const symbols = [...new Set(windows.map(({ symbol }) => symbol!))];
  const from = windows.reduce((least, window) => Math.min(least, window.from!), Number.POSITIVE_INFINITY);
  const to = windows.reduce((most, window) => Math.max(most, window.to!), Number.NEGATIVE_INFINITY);
  const only = symbols.length === 1 ? ` --symbol ${quoteShellWord(symbols[0]!)}` : '';
  return `oddslake backfill --from ${formatIsoUtc(from)} --to ${formatIsoUtc(to)}${only}`;
}

const formatLastDaysFlags = ({ started_at: at }: Summary): string => {
  const day = floorToDay(at);
  return `--from ${formatDay(day - dayMs)} --to ${formatDay(day + dayMs)}`;
};

/** A word as a shell takes it. */
export const quoteShellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

/** The summary with what is to be done next. `run`: none where the archive could not be opened, or read any more. */
export const addNextAction = (summary: Summary, context: Context, run: Run | undefined, thrown: unknown): Summary => ({
  ...summary,
  next_action: suggestNextAction(summary, gatherActionFacts(context, run, thrown)),
});

function gatherActionFacts({ settings, argv }: Context, run: Run | undefined, thrown: unknown): ActionFacts {
  const { output, outputFlagged } = settings.archive;
  const config = settings.configFile === null ? '' : ` --config ${quoteShellWord(toRelativePath(settings.configFile))}`;
  return {
    thrown,
    failures: run?.failures ?? [],
    hasSharpDrop: run?.hasSharpDrop ?? false,
    longOverdueSymbols: run?.longOverdueSymbols ?? [],
    quarantinePath: join(toRelativePath(output), toQuarantinePath(run?.archive.state.generation() ?? 0)),
    flags: `${outputFlagged ? `${config} --output ${quoteShellWord(toRelativePath(output))}` : config}${formatSetFlags(argv ?? [])}`,
    argv: argv ?? null,
  };
}

/** The settings that were given by --set, as a shell takes them. */
function formatSetFlags(words: readonly string[]): string {
  const given = words.flatMap((word, i) =>
    word === '--set' ? (words[i + 1] ?? []) : word.startsWith('--set=') ? word.slice('--set='.length) : [],
  );
  return given.map((text) => ` --set ${quoteShellWord(text)}`).join('');
}

/** From the working folder, where it lies in it. */
function toRelativePath(path: string): string {
  const from = relative('.', path);
  return from === '' || from.startsWith('..') ? path : from;
}
