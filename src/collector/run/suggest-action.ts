import { join } from 'node:path';
import { toQuarantinePath } from '../../archive/format/layout.ts';
import type { Summary } from '../../archive/journal/run-summary.ts';
import { DiskFullError, type ExitCode, exitCodes } from '../../base/errors.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { formatDay, formatIsoUtc } from '../../base/time.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import { toShortPath } from '../../settings/environment.ts';
import type { FailureKind, RunFailure } from './summary.ts';

/** Facts about a run that its summary does not contain. */
export interface ActionFacts {
  /** The error that ended the run; undefined if none did. */
  readonly thrown: unknown;
  /** All failures; the summary lists only the first ones. */
  readonly failures: readonly RunFailure[];
  /** Flags that select this archive and its settings from the working folder, with a leading space; may be empty. */
  readonly flags: string;
  /** Command-line arguments of the run; null if it was not started from a command line. */
  readonly argv: readonly string[] | null;
  /** The file to which the run wrote rejected rows. */
  readonly quarantinePath: string;
}

interface ActionRule {
  when(summary: Summary, facts: ActionFacts): boolean;
  /** A sentence that ends with a command; null for no action. */
  action(summary: Summary, facts: ActionFacts): string | null;
}

/** Scratch files are written without a description of the error. */
const isDiskFull = (thrown: unknown): boolean =>
  thrown instanceof DiskFullError ||
  (thrown instanceof Error && ['ENOSPC', 'EDQUOT'].includes((thrown as NodeJS.ErrnoException).code ?? ''));

/** The first rule that applies decides: errors that ended the run, then missing data, then data worth inspecting. */
const actionRules: readonly ActionRule[] = [
  { when: hasExitCode(exitCodes.usage), action: () => null },
  {
    when: (_, { thrown }) => isDiskFull(thrown),
    action: suggestRerun('Free disk space, then run it again'),
  },
  { when: hasExitCode(exitCodes.credential), action: suggestRerun('Set a valid API key, then run it again') },
  { when: hasExitCode(exitCodes.damaged), action: suggest('Repair the archive', 'verify --repair') },
  {
    when: hasExitCode(exitCodes.busy),
    action: suggest('When the other run has ended, publish the ticks of this one', 'publish'),
  },
  { when: hasExitCode(exitCodes.unreachable), action: suggestRerun('When the upstream can be reached, run it again') },
  { when: hasExitCode(exitCodes.interrupted, exitCodes.terminated), action: suggestRerun('Resume the run') },
  {
    when: hasExitCode(exitCodes.unexpected),
    action: suggestRerun('Run it again with the debug log', '--log-level debug'),
  },
  { when: hasFailure('address'), action: suggestRerun('Correct the address of the service, then run it again') },
  { when: hasFailure('source'), action: suggestRerun('Fix what failed at the source, then run it again') },
  {
    when: (_, { failures, argv }) => argv !== null && findMissingFlags(failures).length > 0,
    action: (summary, facts) =>
      suggestRerun('Import the files again with the missing flags', ...findMissingFlags(facts.failures))(
        summary,
        facts,
      ),
  },
  {
    when: (_, { failures }) => failures.some(isUnfetchedWindow),
    action: (_, { failures, flags }) =>
      `Fetch the missing windows: ${formatBackfillCommand(failures.filter(isUnfetchedWindow))}${flags}`,
  },
  { when: hasFailure('accepted', 'expired', 'lost'), action: suggest('List the remaining gaps', 'gaps') },
  { when: hasFailure('suspended'), action: suggest('Request the suspended symbols now', 'symbols retry') },
  {
    when: hasFailure('sharp drop'),
    action: (summary, { flags }) =>
      `Check whether the upstream lacks the data too; to fetch these days again: oddslake backfill --force ${formatLastDaysFlags(summary)}${flags}`,
  },
  { when: hasFailure('market list'), action: suggest('Poll the market lists again', 'markets') },
  { when: hasFailure('push'), action: suggest('Push the published generation again', 'push') },
  { when: hasFailure('order book'), action: suggest('Poll the order books again', 'orderbook') },
  {
    when: ({ ticks }) => ticks.quarantined > 0,
    action: (_, { quarantinePath }) => `Inspect the rejected rows: gzip -dc ${quoteShellWord(quarantinePath)} | head`,
  },
];

/** Returns the next action after a run, as a sentence that ends with a command; null if there is nothing to do. */
export const suggestNextAction = (summary: Summary, facts: ActionFacts): string | null =>
  actionRules.find(({ when }) => when(summary, facts))?.action(summary, facts) ?? null;

function hasExitCode(...codes: readonly ExitCode[]): ActionRule['when'] {
  return ({ exit_code }) => codes.includes(exit_code);
}

function hasFailure(...kinds: readonly FailureKind[]): ActionRule['when'] {
  return (_, { failures }) => failures.some(({ kind }) => kind !== undefined && kinds.includes(kind));
}

function suggest(text: string, command: string): ActionRule['action'] {
  return (_, { flags }) => `${text}: oddslake ${command}${flags}`;
}

function suggestRerun(text: string, ...moreFlags: readonly string[]): ActionRule['action'] {
  return (summary, facts) => `${text}: ${[formatRerunCommand(summary, facts), ...moreFlags].join(' ')}`;
}

/** The flags that the first rejected file of an import needs; empty if there is none. */
const findMissingFlags = (failures: readonly RunFailure[]): readonly string[] =>
  failures.find(({ flags = [] }) => flags.length > 0)?.flags ?? [];

const isUnfetchedWindow = ({ symbol, kind }: RunFailure): boolean => symbol !== null && kind === undefined;

/** The command line of the run. If it was not started from a command line, that of its job. */
function formatRerunCommand({ job }: Summary, { flags, argv }: ActionFacts): string {
  if (argv !== null) return `oddslake ${argv.map(quoteShellWord).join(' ')}`;
  if (job === 'repair') return `oddslake verify --repair${flags}`;
  // These two require arguments.
  const rest = job === 'backfill' || job === 'import' ? ' …' : '';
  return `oddslake ${job}${flags}${rest}`;
}

/** Maximum number of symbols that a suggested command names. */
const namedSymbolsMax = 5;

/** A backfill from the first window to the last, limited to the symbols if there are only a few. */
function formatBackfillCommand(windows: readonly RunFailure[]): string {
  const symbols = [...new Set(windows.map(({ symbol }) => symbol!))];
  const from = windows.reduce((min, window) => Math.min(min, window.from!), Number.POSITIVE_INFINITY);
  const to = windows.reduce((max, window) => Math.max(max, window.to!), Number.NEGATIVE_INFINITY);
  const named = symbols.length > namedSymbolsMax ? [] : symbols;
  const symbolFlags = named.map((symbol) => ` --symbol ${quoteShellWord(symbol)}`).join('');
  return `oddslake backfill --from ${formatIsoUtc(from)} --to ${formatIsoUtc(to)}${symbolFlags}`;
}

/** The UTC day of the run and the day before it. */
const formatLastDaysFlags = ({ started_at: at }: Summary): string => {
  const day = floorToDay(at);
  return `--from ${formatDay(day - dayMs)} --to ${formatDay(day + dayMs)}`;
};

/** The failures of a run, and the generation at its end. */
interface EndedRunFacts {
  readonly failures: readonly RunFailure[];
  readonly generation: number;
}

/** Adds the next action to a summary. `run` is undefined if the archive could not be opened or its state could not be read. */
export const addNextAction = (
  summary: Summary,
  context: Context,
  run: EndedRunFacts | undefined,
  thrown: unknown,
): Summary => ({
  ...summary,
  next_action: suggestNextAction(summary, gatherActionFacts(context, run, thrown)),
});

function gatherActionFacts({ settings, argv }: Context, run: EndedRunFacts | undefined, thrown: unknown): ActionFacts {
  const { output, outputFlagged } = settings.archive;
  const config = settings.configFile === null ? '' : ` --config ${quoteShellWord(toShortPath(settings.configFile))}`;
  return {
    thrown,
    failures: run?.failures ?? [],
    quarantinePath: join(toShortPath(output), toQuarantinePath(run?.generation ?? 0)),
    flags: `${outputFlagged ? `${config} --output ${quoteShellWord(toShortPath(output))}` : config}${formatSetFlags(argv ?? [])}`,
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
