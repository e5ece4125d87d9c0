import { type ExitCode, exitCodes } from '../base/errors.ts';

/** The checks by group, in the order in which the groups are printed. */
export const checkGroups = {
  machine: ['node', 'memory', 'clock'],
  disk: ['space', 'files', 'file system', 'permissions', 'secrets'],
  settings: ['settings', 'schedule', 'selection'],
  upstream: ['address', 'key', 'reachable', 'ticks', 'rate'],
  archive: ['archive', 'state', 'published', 'verdict', 'finding', 'quarantined'],
  service: ['database', 'api keys'],
} as const;

type FindingGroup = keyof typeof checkGroups;
export type CheckName = (typeof checkGroups)[FindingGroup][number];

/** Result of one check. */
export interface Finding {
  readonly group: FindingGroup;
  readonly check: CheckName;
  /** The same words as in the report. */
  readonly severity: 'ok' | 'warning' | 'action_required';
  /** What was found: a clause without a full stop. */
  readonly message: string;
  /** What to do; null if there is nothing to do. */
  readonly action: string | null;
  /** Exit code that a run would have because of this finding; 0 unless action is required. */
  readonly exit_code: ExitCode;
}

const createFinding = (check: CheckName, rest: Omit<Finding, 'group' | 'check'>): Finding => {
  const groups = Object.entries(checkGroups) as [FindingGroup, readonly CheckName[]][];
  const [group] = groups.find(([, checks]) => checks.includes(check))!;
  return { group, check, ...rest };
};

export const ok = (check: CheckName, message: string): Finding =>
  createFinding(check, { severity: 'ok', message, action: null, exit_code: exitCodes.done });

export const warning = (check: CheckName, message: string, action: string): Finding =>
  createFinding(check, { severity: 'warning', message, action, exit_code: exitCodes.done });

export const problem = (check: CheckName, exitCode: ExitCode, message: string, action: string): Finding =>
  createFinding(check, { severity: 'action_required', message, action, exit_code: exitCode });

/** Up to three names or paths, and the number of the others. */
export const formatSome = (paths: readonly string[]): string =>
  `${paths.slice(0, 3).join(', ')}${paths.length > 3 ? ` and ${paths.length - 3} more` : ''}`;

/** The order in which a run encounters problems: settings, archive, disk, upstream, incomplete data. */
const exitCodePrecedence: readonly ExitCode[] = [
  exitCodes.usage,
  exitCodes.damaged,
  exitCodes.unexpected,
  exitCodes.unreachable,
  exitCodes.credential,
  exitCodes.incomplete,
];

/** The exit code of `doctor`: 0 without problems. With `strict`, warnings alone give 4. */
export function computeDoctorExitCode(findings: readonly Finding[], strict: boolean): ExitCode {
  const codes = findings.map(({ exit_code }) => exit_code).filter((code) => code !== exitCodes.done);
  if (codes.length > 0) return exitCodePrecedence.find((code) => codes.some((other) => other === code)) ?? codes[0]!;
  return strict && findings.some(({ severity }) => severity === 'warning') ? exitCodes.incomplete : exitCodes.done;
}
