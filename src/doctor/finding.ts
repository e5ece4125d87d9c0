import { type ExitCode, exitCodes } from '../base/errors.ts';

export const findingGroups = ['machine', 'disk', 'settings', 'upstream', 'archive', 'service'] as const;

export type FindingGroup = (typeof findingGroups)[number];

/** Result of one check. */
export interface Finding {
  readonly group: FindingGroup;
  readonly check: string;
  readonly level: 'ok' | 'warning' | 'problem';
  /** What was found: a clause without a full stop. */
  readonly found: string;
  /** What to do; null if there is nothing to do. */
  readonly advice: string | null;
  /** Exit code that a run would have because of this problem; 0 for `ok` and `warning`. */
  readonly exit_code: ExitCode;
}

/** Creates findings of one check, for each level. */
export function createFindings(group: FindingGroup, check: string) {
  const finding = (level: Finding['level'], found: string, advice: string | null, exit_code: ExitCode): Finding => ({
    group,
    check,
    level,
    found,
    advice,
    exit_code,
  });
  return {
    ok: (found: string): Finding => finding('ok', found, null, exitCodes.done),
    warning: (found: string, advice: string): Finding => finding('warning', found, advice, exitCodes.done),
    problem: (exitCode: ExitCode, found: string, advice: string): Finding =>
      finding('problem', found, advice, exitCode),
  };
}

/** The order in which a run meets problems: settings, archive, disk, service, incomplete data. */
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
  const problems = findings.filter(({ level }) => level === 'problem').map(({ exit_code }) => exit_code);
  if (problems.length > 0) return exitCodePrecedence.find((code) => problems.includes(code)) ?? problems[0]!;
  const hasWarnings = findings.some(({ level }) => level === 'warning');
  return strict && hasWarnings ? exitCodes.incomplete : exitCodes.done;
}
