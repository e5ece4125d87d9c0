import type { OddslakeError } from '../../core/errors.ts';
import { many } from '../../core/format-quantity.ts';
import { isoUtc } from '../../core/time.ts';
import { type Finding, of } from './finding.ts';

/** A setting that is not the default. */
export interface Chosen {
  readonly path: string;
  /** As JSON; `(hidden)` for a secret. */
  readonly value: string;
  /** Where it is from: the config's path, a variable of the environment, a flag. */
  readonly from: string;
}

export interface ScheduledFacts {
  readonly job: string;
  /** When it is to start next, epoch ms; null where that is never. */
  readonly next: number | null;
}

export function judgeSettings(chosen: readonly Chosen[]): Finding {
  const { ok } = of('settings', 'settings');
  return ok(chosen.length === 0 ? 'all as they are by default' : `${many(chosen.length, 'setting')} not the default:`);
}

/** Settings that could not be read: nothing else of what depends on them can be looked at. */
export const badSettings = ({ message, exitCode }: OddslakeError): Finding =>
  of('settings', 'settings').problem(exitCode, message, 'Every setting: docs/SETTINGS.md and config/default.yaml.');

export function judgeSchedule(jobs: readonly ScheduledFacts[]): Finding {
  const { ok } = of('settings', 'schedule');
  const set = jobs.filter((job): job is { job: string; next: number } => job.next !== null);
  return ok(
    set.length === 0
      ? 'nothing, so that oddslake schedule has nothing to run'
      : `${set.map(({ job, next }) => `${job} next at ${isoUtc(next)}`).join(', ')}, where oddslake schedule runs`,
  );
}
