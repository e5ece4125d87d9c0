import type { FailureLine, Summary } from '../../archive/journal/run-summary.ts';
import { suggestBackfill } from '../../archive/read/judge.ts';
import { DiskFullError, type ExitCode, exitCodes } from '../../base/errors.ts';
import { formatCount, formatNumber } from '../../base/format-quantity.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { type Finding, type FindingKind, toNamedFew } from '../../contract/finding.ts';

type Described = Omit<Summary, 'verdict' | 'findings'>;

/** A failure as the run records it. `kind` and `flags` determine its finding; the summary omits them. */
export interface RunFailure extends FailureLine {
  /** Absent for a window that could not be fetched. */
  readonly kind?: FailureKind;
  /** Command-line flags that would have prevented the failure. */
  readonly flags?: readonly string[];
}

/** Creates a failure that does not concern a window of one symbol. */
export const createJobFailure = (kind: FailureKind, reason: string): RunFailure => ({
  symbol: null,
  from: null,
  to: null,
  kind,
  reason,
});

export type FailureKind =
  | 'accepted'
  | 'address'
  | 'expired'
  | 'input file'
  | 'lost'
  | 'market list'
  | 'order book'
  | 'prices'
  | 'push'
  | 'source'
  | 'suspended'
  | 'unrecoverable';

/**
 * A warning of a run. The kind is that of the finding of the archive that says the same; without one it stands alone. `flags`: with
 * them, the command line of the run helps.
 */
export type RunWarning =
  | string
  | { readonly kind: FindingKind; readonly text: string; readonly flags?: readonly string[] };

/** What `judgeRun` needs besides the summary. */
export interface RunEnd {
  readonly failures: readonly RunFailure[];
  readonly warnings: readonly RunWarning[];
  /** The error that ended the run; undefined if none did. */
  readonly thrown: unknown;
  /** Command-line arguments of the run; absent if it was not started from a command line. */
  readonly argv?: readonly string[] | undefined;
}

/** What ended the run, by its exit code. Damage, and what is missing, is found in the archive. */
const endings: Readonly<Partial<Record<ExitCode, FindingKind>>> = {
  [exitCodes.usage]: 'settings',
  [exitCodes.credential]: 'credential',
  [exitCodes.damaged]: 'damage',
  [exitCodes.busy]: 'busy',
  [exitCodes.unreachable]: 'unreachable',
  [exitCodes.interrupted]: 'interrupted',
  [exitCodes.terminated]: 'interrupted',
  [exitCodes.unexpected]: 'error',
};

/** Scratch files are written without a description of the error. */
const isDiskFull = (thrown: unknown): boolean =>
  thrown instanceof DiskFullError ||
  (thrown instanceof Error && ['ENOSPC', 'EDQUOT'].includes((thrown as NodeJS.ErrnoException).code ?? ''));

const stripFullStop = (text: string): string => text.replace(/\.$/, '');

/** Finds what is wrong with a run at its end: the error that ended it, its failures by kind, its warnings. */
export function judgeRun(summary: Described, { failures, warnings, thrown, argv }: RunEnd): Finding[] {
  const rerun = formatRerunCommand(summary, argv ?? null);
  return [
    ...judgeEnding(summary, thrown, rerun),
    ...[...Map.groupBy(failures, toFindingKind)].map(([kind, of]) => createFailureFinding(kind, of, rerun)),
    ...warnings.map((warning): Finding => {
      const {
        kind,
        text,
        flags = null,
      } = typeof warning === 'string' ? { kind: 'warning' as const, text: warning } : warning;
      const isInfo = infoKinds.has(kind) || (kind === 'rejected rows' && isUsualShare(summary));
      const severity = isInfo ? 'info' : 'warning';
      const command = flags === null ? null : [rerun, ...flags].join(' ');
      return { kind, severity, message: stripFullStop(text), command };
    }),
  ];
}

const infoKinds: ReadonlySet<FindingKind> = new Set(['known gaps', 'unused columns', 'possibly downsampled']);

function judgeEnding({ job, exit_code: code, error }: Described, thrown: unknown, rerun: string): Finding[] {
  const kind = isDiskFull(thrown) ? 'disk full' : endings[code];
  if (kind === undefined) return [];
  const commands: Partial<Record<FindingKind, string | null>> = {
    settings: null,
    damage: 'oddslake verify --repair',
    busy: 'oddslake publish',
    error: `${rerun} --log-level debug`,
  };
  const command = commands[kind];
  const stoppedText = `the ${job} was stopped; what it accepted is kept`;
  return [
    {
      kind,
      severity: kind === 'interrupted' || kind === 'busy' ? 'warning' : 'action_required',
      message: stripFullStop(kind === 'interrupted' ? stoppedText : (error ?? 'the run failed')),
      command: command === undefined ? rerun : command,
    },
  ];
}

const toFindingKind = ({ kind, symbol }: RunFailure): FindingKind => {
  if (kind === 'accepted' || kind === 'expired') return 'known gaps';
  return kind ?? (symbol === null ? 'error' : 'failing symbols');
};

/** One finding about all failures of a kind. */
function createFailureFinding(kind: FindingKind, failures: readonly RunFailure[], rerun: string): Finding {
  const reasons = [...Map.groupBy(failures, ({ reason }) => reason).values()].toSorted((a, b) => b.length - a.length);
  const [first] = reasons[0]!;
  const symbols = [...new Set(failures.flatMap(({ symbol }) => symbol ?? []))];
  const [verb, name] = [kind === 'failing symbols' ? ' failed' : '', symbols.length === 1 ? `${symbols[0]!}: ` : ''];
  // A symbol is no first word: the verdict begins with a capital.
  const subject = symbols.length === 0 ? '' : `${formatCount(symbols.length, 'symbol')}${verb}: ${name}`;
  const others = (symbols.length === 0 ? failures : reasons).length - 1;
  const othersText = symbols.length === 0 ? `${formatNumber(others)} more` : formatCount(others, 'other reason');
  const flags = failures.find((failure) => (failure.flags ?? []).length > 0)?.flags ?? [];
  const window = {
    from: failures.reduce((min, { from }) => Math.min(min, from ?? min), Number.POSITIVE_INFINITY),
    to: failures.reduce((max, { to }) => Math.max(max, to ?? max), Number.NEGATIVE_INFINITY),
  };
  const commands: Partial<Record<FindingKind, string | null>> = {
    'failing symbols': symbols.length > 0 ? suggestBackfill(window, symbols) : rerun,
    'known gaps': 'oddslake gaps',
    lost: 'oddslake verify --repair',
    suspended: 'oddslake symbols retry',
    'market list': 'oddslake markets',
    push: 'oddslake push',
    prices: [rerun, ...flags].join(' '),
    'order book': 'oddslake orderbook',
    'input file': flags.length > 0 ? [rerun, ...flags].join(' ') : null,
    unrecoverable: null,
  };
  const command = commands[kind];
  return {
    kind,
    severity: kind === 'prices' ? 'action_required' : 'warning',
    message: `${subject}${stripFullStop(first!.reason)}${others === 0 ? '' : ` (and ${othersText})`}`,
    ...(kind === 'prices' && {
      advice: 'if they stay so, set source.price: the command takes them in once, in the unit of the archive',
    }),
    command: command === undefined ? rerun : command,
    ...(symbols.length > 0 && { symbols: toNamedFew(symbols) }),
  };
}

/** Unusable rows up to this share of all rows are normal, and no reason to warn. Imports have the same default. */
const unusableShareMax = 0.01;

function isUsualShare({ ticks, quotes, trades }: Described): boolean {
  const all = [ticks, quotes, trades].filter((one) => one !== undefined);
  const [fetched, unusable] = [all.map((one) => one.fetched), all.map((one) => one.quarantined)].map((counts) =>
    counts.reduce((sum, count) => sum + count, 0),
  );
  return unusable! <= fetched! * unusableShareMax;
}

/** The command line of the run. If it was not started from a command line, that of its job. */
function formatRerunCommand({ job }: Described, argv: readonly string[] | null): string {
  if (argv !== null) return `oddslake ${argv.map(quoteShellWord).join(' ')}`;
  if (job === 'repair') return 'oddslake verify --repair';
  // These two require arguments.
  return `oddslake ${job}${job === 'backfill' || job === 'import' ? ' …' : ''}`;
}
