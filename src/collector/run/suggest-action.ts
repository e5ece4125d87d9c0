import { join, relative } from 'node:path';
import { toQuarantinePath } from '../../archive/format/layout.ts';
import { DiskFullError, exitCodes } from '../../base/errors.ts';
import { formatDay, formatIsoUtc } from '../../base/time.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import type { Run } from './run.ts';
import type { FailureKind, RunFailure, Summary } from './summary.ts';

/** Facts about a run that its summary does not contain. */
export interface ActionFacts {
  /** The error that ended the run; undefined if none did. */
  readonly thrown: unknown;
  /** All failures; the summary lists only the first ones. */
  readonly failures: readonly RunFailure[];
  /** Whether the number of markets or ticks dropped sharply compared with the previous nights. */
  readonly hasSharpDrop: boolean;
  /** Symbols more than a day past their close and not resolved, longest overdue first. */
  readonly longOverdueSymbols: readonly string[];
  /** Flags that select this archive and its settings from the working folder, with a leading space; may be empty. */
  readonly flags: string;
  /** Command-line arguments of the run; null if it was not started from a command line. */
  readonly argv: readonly string[] | null;
  /** The file to which the run wrote rejected rows. */
  readonly quarantinePath: string;
}

/** Conflicts are reported if they exceed this multiple of the median and this number. */
const conflictsFactor = 3;
const conflictsMin = 100;

/**
 * Returns the next action after a run, as a sentence that ends with a command; null if there is nothing to do. Errors that
 * ended the run come first, then missing data, then data worth inspecting.
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
  const rerun = formatRerunCommand(summary, flags, argv);
  if (code === exitCodes.usage) return null;
  if (thrown instanceof DiskFullError) return `Free disk space, then run it again: ${rerun}`;
  if (code === exitCodes.credential) return `Set a valid API key, then run it again: ${rerun}`;
  if (code === exitCodes.damaged) return `Repair the archive: oddslake verify --repair${flags}`;
  if (code === exitCodes.busy)
    return `When the other run has ended, publish the ticks of this one: oddslake publish${flags}`;
  if (code === exitCodes.unreachable) return `When the upstream can be reached, run it again: ${rerun}`;
  if (code === exitCodes.interrupted || code === exitCodes.terminated) return `Resume the run: ${rerun}`;
  if (code === exitCodes.unexpected) return `Run it again with the debug log: ${rerun} --log-level debug`;
  return null;
}

function suggestForMissing(summary: Summary, { failures, hasSharpDrop, flags, argv }: ActionFacts): string | null {
  const { job } = summary;
  const importFlags = failures.find((failure) => (failure.flags ?? []).length > 0)?.flags;
  if (job === 'import' && argv !== null && importFlags !== undefined) {
    const command = formatRerunCommand(summary, flags, argv);
    return `Import the files again with the missing flags: ${command} ${importFlags.join(' ')}`;
  }
  const windows = failures.filter(({ symbol }) => symbol !== null);
  const hasWindow = (...kinds: FailureKind[]): boolean =>
    windows.some(({ kind }) => kind !== undefined && kinds.includes(kind));
  const unfetched = windows.filter(({ kind }) => kind === undefined);
  if (unfetched.length > 0) {
    const when = job === 'nightly' || job === 'ticks' ? ' now, or leave it to the next run' : '';
    return `Fetch the missing windows${when}: ${formatBackfillCommand(unfetched)}${flags}`;
  }
  if (hasWindow('lost')) return `List the lost windows: oddslake gaps${flags}`;
  if (hasWindow('accepted', 'expired')) return `List the remaining gaps: oddslake gaps${flags}`;
  if (failures.some(({ kind }) => kind === 'suspended'))
    return `Request the suspended symbols now: oddslake symbols retry${flags}`;
  if (hasSharpDrop)
    return `Check whether the upstream lacks the data too; to fetch these days again: oddslake backfill --force ${formatLastDaysFlags(summary)}${flags}`;
  if (failures.some(({ kind }) => kind === 'market list'))
    return `Poll the market lists again: oddslake markets${flags}`;
  if (failures.length > 0 && summary.orderbooks.failed > 0)
    return `Poll the order books again: oddslake orderbook${flags}`;
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
    return `List the symbols with the most conflicts: oddslake sql "SELECT symbol, count(*) AS n FROM conflicts GROUP BY 1 ORDER BY 2 DESC LIMIT 20"${flags}`;
  if (ticks.quarantined > 0)
    return `Inspect the rejected rows: gzip -dc ${quoteShellWord(facts.quarantinePath)} | head`;
  const [first] = facts.longOverdueSymbols;
  if (first !== undefined)
    return `Inspect the market that is longest overdue: oddslake symbols ${quoteShellWord(first)}${flags}`;
  return null;
}

/** The command line of a run; that of its job if `words` is null. */
function formatRerunCommand({ job }: Summary, flags: string, words: readonly string[] | null): string {
  if (words !== null) return `oddslake ${words.map(quoteShellWord).join(' ')}`;
  if (job === 'repair') return `oddslake verify --repair${flags}`;
  // These two require arguments.
  const rest = job === 'backfill' || job === 'import' ? ' …' : '';
  return `oddslake ${job}${flags}${rest}`;
}

/** A backfill from the first window to the last, limited to the symbol if there is only one. */
function formatBackfillCommand(windows: readonly RunFailure[]): string {
  const symbols = [...new Set(windows.map(({ symbol }) => symbol!))];
  const from = windows.reduce((min, window) => Math.min(min, window.from!), Number.POSITIVE_INFINITY);
  const to = windows.reduce((max, window) => Math.max(max, window.to!), Number.NEGATIVE_INFINITY);
  const symbolFlag = symbols.length === 1 ? ` --symbol ${quoteShellWord(symbols[0]!)}` : '';
  return `oddslake backfill --from ${formatIsoUtc(from)} --to ${formatIsoUtc(to)}${symbolFlag}`;
}

/** The UTC day of the run and the day before it. */
const formatLastDaysFlags = ({ started_at: at }: Summary): string => {
  const day = floorToDay(at);
  return `--from ${formatDay(day - dayMs)} --to ${formatDay(day + dayMs)}`;
};

/** Quotes a word for a POSIX shell if necessary. */
export const quoteShellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

/** Adds the next action to a summary. `run` is undefined if the archive could not be opened or its state could not be read. */
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

/** The --set flags of a command line, quoted for a shell. */
function formatSetFlags(words: readonly string[]): string {
  const assignments = words.flatMap((word, i) =>
    word === '--set' ? (words[i + 1] ?? []) : word.startsWith('--set=') ? word.slice('--set='.length) : [],
  );
  return assignments.map((text) => ` --set ${quoteShellWord(text)}`).join('');
}

/** Relative to the working folder if the path is inside it. */
function toRelativePath(path: string): string {
  const from = relative('.', path);
  return from === '' || from.startsWith('..') ? path : from;
}
