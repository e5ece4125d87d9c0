import { type ExitCode, exitCodes } from '../base/errors.ts';

export const findingGroups = ['machine', 'disk', 'settings', 'upstream', 'archive', 'service'] as const;

export type FindingGroup = (typeof findingGroups)[number];

/** What one look found. */
export interface Finding {
  readonly group: FindingGroup;
  readonly check: string;
  readonly level: 'ok' | 'warning' | 'problem';
  /** What is so, as a clause without a full stop. */
  readonly found: string;
  /** What to do; null where nothing has to be done. */
  readonly advice: string | null;
  /** What a run would end with because of it; 0 but for a problem. */
  readonly exit_code: ExitCode;
}

/** The three kinds of findings of one check. */
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

/** The order in which a run comes upon what is wrong: settings, the archive, the disk, the service, what is left out. */
const exitCodePrecedence: readonly ExitCode[] = [
  exitCodes.usage,
  exitCodes.damaged,
  exitCodes.unexpected,
  exitCodes.unreachable,
  exitCodes.credential,
  exitCodes.incomplete,
];

/** What `doctor` exits with: 0 where nothing is a problem; `strict`: warnings are 4. */
export function computeDoctorExitCode(findings: readonly Finding[], strict: boolean): ExitCode {
  const problems = findings.filter(({ level }) => level === 'problem').map(({ exit_code }) => exit_code);
  if (problems.length > 0) return exitCodePrecedence.find((code) => problems.includes(code)) ?? problems[0]!;
  const warned = findings.some(({ level }) => level === 'warning');
  return strict && warned ? exitCodes.incomplete : exitCodes.done;
}
