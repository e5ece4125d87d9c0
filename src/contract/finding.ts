import { formatCount } from '../base/format-quantity.ts';

/** How bad a finding is. `info`: true, and nothing has to be done about it. */
export const severities = ['info', 'warning', 'action_required'] as const;
type Severity = (typeof severities)[number];

/** All kinds. Of findings that are equally bad, the kind that comes first here decides the verdict. */
export const findingKinds = [
  'settings',
  'disk full',
  'archive unreadable',
  'damage',
  'credential',
  'unreachable',
  'error',
  'busy',
  'interrupted',
  'address',
  'source',
  'failing symbols',
  'lag',
  'prices',
  'frozen feed',
  'market list',
  'input file',
  'push',
  'order book',
  'unrecoverable',
  'lost',
  'gaps',
  'suspended',
  'incomplete days',
  'late job',
  'disk space',
  'known gaps',
  'rejected rows',
  'unused columns',
  'possibly downsampled',
  'warning',
  'running',
  'interrupted publish',
  'unpublished',
  'provisional',
  'empty',
] as const;
export type FindingKind = (typeof findingKinds)[number];

/** One fact about an archive or its last runs that somebody may have to know. */
export interface Finding {
  readonly kind: FindingKind;
  readonly severity: Severity;
  /** A clause without a full stop. */
  readonly message: string;
  /** What to do, in words and without a full stop; absent if the command says it. */
  readonly advice?: string;
  /**
   * The command that helps, beginning with `oddslake` and without the flags that select config and archive: each place
   * that shows it completes it for its reader. Null if no command helps.
   */
  readonly command: string | null;
  /** Since when it is so, epoch ms. */
  readonly since?: number;
  /** The symbols, days or files concerned: how many, and the first of them. */
  readonly symbols?: NamedFew;
  readonly days?: NamedFew;
  readonly files?: NamedFew;
}

export interface NamedFew {
  readonly count: number;
  readonly names: readonly string[];
}

const namesMax = 5;
export const toNamedFew = (names: readonly string[], count = names.length): NamedFew => ({
  count,
  names: names.slice(0, namesMax),
});

/** What is said first of an archive. */
export interface Verdict {
  readonly state: 'ok' | Exclude<Severity, 'info'>;
  /** One plain sentence without a full stop, and without a command. */
  readonly text: string;
  /** The one command that helps; null if there is nothing to do. See `Finding.command`. */
  readonly command: string | null;
}

/** Sorts findings, the worst first. */
export const sortFindings = (findings: readonly Finding[]): Finding[] =>
  findings.toSorted(
    (a, b) =>
      severities.indexOf(b.severity) - severities.indexOf(a.severity) ||
      findingKinds.indexOf(a.kind) - findingKinds.indexOf(b.kind),
  );

const capitalize = (text: string): string => `${text[0]!.toUpperCase()}${text.slice(1)}`;

/** The verdict on sorted findings. @param wellText what is said if nothing is wrong, after `OK: ` */
export function createVerdict(findings: readonly Finding[], wellText: string): Verdict {
  const problems = findings.filter(({ severity }) => severity !== 'info');
  const [first] = problems;
  if (first === undefined || first.severity === 'info') {
    const [empty] = findings.filter(({ kind }) => kind === 'empty');
    return empty === undefined
      ? { state: 'ok', text: `OK: ${wellText}`, command: null }
      : { state: 'ok', text: capitalize(empty.message), command: empty.command };
  }
  const { severity, message, advice } = first;
  const moreText = problems.length === 1 ? '' : ` (and ${formatCount(problems.length - 1, 'more finding')})`;
  const adviceText = advice === undefined ? '' : `; ${advice}`;
  return {
    state: severity,
    text: `${capitalize(message)}${moreText}${adviceText}`,
    command: first.command,
  };
}

/** The findings that the verdict does not state. */
export const listOtherFindings = (findings: readonly Finding[]): Finding[] =>
  findings.filter(({ severity, kind }, i) => i > 0 || (severity === 'info' && kind !== 'empty'));

/**
 * A judgement for readers without a key: kinds in place of messages, which quote symbols, paths and the upstream. Of a verdict
 * that is well the text stays.
 */
export function toOpenJudgement({
  verdict,
  findings,
}: {
  readonly verdict: Verdict;
  readonly findings: readonly Finding[];
}) {
  const open = findings.map(({ kind, severity }): Finding => ({ kind, severity, message: kind, command: null }));
  return { findings: open, verdict: verdict.state === 'ok' ? verdict : createVerdict(open, '') };
}

/** A verdict as one line. @param complete completes the command for the reader of the line */
export const formatVerdict = ({ text, command }: Verdict, complete: (command: string) => string): string =>
  command === null ? text : `${text}; next: ${complete(command)}`;
