import type { OddslakeError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-quantity.ts';
import { formatIsoUtc } from '../../core/time.ts';
import { createFindings, type Finding } from './finding.ts';

/** A setting that is not the default. */
export interface NonDefaultSetting {
  readonly path: string;
  /** As JSON; `(hidden)` for a secret. */
  readonly value: string;
  /** Where it is from: the config's path, a variable of the environment, a flag. */
  readonly from: string;
}

export interface ScheduledJobFacts {
  readonly job: string;
  /** When it is to start next, epoch ms; null where that is never. */
  readonly next: number | null;
}

export function judgeSettings(chosen: readonly NonDefaultSetting[]): Finding {
  const { ok } = createFindings('settings', 'settings');
  return ok(
    chosen.length === 0 ? 'all as they are by default' : `${formatCount(chosen.length, 'setting')} not the default:`,
  );
}

/** Settings that could not be read: nothing else of what depends on them can be looked at. */
export const createUnreadableSettingsFinding = ({ message, exitCode }: OddslakeError): Finding =>
  createFindings('settings', 'settings').problem(
    exitCode,
    message,
    'Every setting: docs/SETTINGS.md and config/default.yaml.',
  );

export function judgeSchedule(jobs: readonly ScheduledJobFacts[]): Finding {
  const { ok } = createFindings('settings', 'schedule');
  const set = jobs.filter((job): job is { job: string; next: number } => job.next !== null);
  return ok(
    set.length === 0
      ? 'nothing, so that oddslake schedule has nothing to run'
      : `${set.map(({ job, next }) => `${job} next at ${formatIsoUtc(next)}`).join(', ')}, where oddslake schedule runs`,
  );
}
