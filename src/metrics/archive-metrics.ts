import type { Log } from '../base/ports.ts';
import { archiveStates, type CompletenessCounts, dayStates, gapReasons } from '../contract/completeness-counts.ts';
import type { Sample } from './metric-definitions.ts';

/** The status of the archive, a subset of archive/read/archive-status.ts. */
interface ArchiveGauges {
  readonly generation: number;
  /** Every live symbol is covered up to here without inferred windows, epoch ms; null if no symbol is live. */
  readonly watermark: number | null;
  /** The same, including inferred windows. */
  readonly reached: number | null;
  readonly ticksPublished: number;
  readonly ticksJournaled: number;
  readonly completeness: CompletenessCounts;
  /** Every published byte has been hashed since this time, epoch ms; null if some have never been. */
  readonly verifiedThrough: number | null;
}

/** Returns the samples of the archive. If it cannot be read, `archive_readable` is 0 and the others are NaN. */
export function readArchiveSamples(read: () => ArchiveGauges, nowMs: number, log: Log): Sample[] {
  try {
    return toStatusSamples(read(), nowMs);
  } catch (error) {
    log.error({ err: error }, 'the archive cannot be read');
    return toStatusSamples(null, nowMs);
  }
}

function toStatusSamples(now: ArchiveGauges | null, nowMs: number): Sample[] {
  const one = (name: string, value: number | null | undefined): Sample => ({
    name: `oddslake_${name}`,
    labels: {},
    value: value ?? Number.NaN,
  });
  const seconds = (ms: number | null | undefined): number => (typeof ms === 'number' ? ms / 1000 : Number.NaN);
  const reached = now?.reached ?? null;
  return [
    one('archive_readable', Number(now !== null)),
    one('generation', now?.generation),
    one('watermark_timestamp_seconds', seconds(now?.watermark)),
    one('reached_timestamp_seconds', seconds(reached)),
    one('lag_seconds', reached === null ? null : Math.max(0, nowMs - reached) / 1000),
    one('ticks_published', now?.ticksPublished),
    one('ticks_journaled', now?.ticksJournaled),
    one('verified_through_timestamp_seconds', seconds(now?.verifiedThrough)),
    ...toCompletenessSamples(now?.completeness ?? null),
  ];
}

/** Returns the samples of the completeness; NaN for all of them if it is null. */
export function toCompletenessSamples(completeness: CompletenessCounts | null): Sample[] {
  const one = (name: string, value: number | undefined, labels: Record<string, string> = {}): Sample => ({
    name: `oddslake_${name}`,
    labels,
    value: value ?? Number.NaN,
  });
  return [
    ...archiveStates.map((state) =>
      one('archive_state', completeness === null ? Number.NaN : Number(completeness.state === state), { state }),
    ),
    ...dayStates.map((state) => one('dates', completeness?.days[state], { state })),
    ...gapReasons.map((reason) => one('gaps', completeness?.gaps[reason], { reason })),
    one('windows_inferred', completeness?.inferred_windows),
    one('symbols_suspended', completeness?.suspended),
    one('damaged_files', completeness?.damaged.files),
  ];
}
