import type { Log } from '../base/ports.ts';
import { archiveStates, type CompletenessCounts, dayStates, gapReasons } from '../contract/completeness-counts.ts';
import type { Sample } from './metric-definitions.ts';

/** How the archive stands, as archive/read/archive-status.ts has it. */
interface ArchiveGauges {
  readonly generation: number;
  /** Up to where every live symbol is covered by proven windows, epoch ms; null where no symbol is live. */
  readonly watermark: number | null;
  /** The same with inferred windows. */
  readonly reached: number | null;
  readonly ticksPublished: number;
  readonly ticksJournaled: number;
  readonly verdict: CompletenessCounts;
  /** Since when every published byte has been hashed, epoch ms; null where some never were. */
  readonly verifiedThrough: number | null;
}

/** How the archive stands now; that it cannot be read is a figure, too, and leaves the others unknown. */
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
    ...toVerdictSamples(now?.verdict ?? null),
  ];
}

/** How whole the archive is; null leaves every figure unknown. */
export function toVerdictSamples(verdict: CompletenessCounts | null): Sample[] {
  const one = (name: string, value: number | undefined, labels: Record<string, string> = {}): Sample => ({
    name: `oddslake_${name}`,
    labels,
    value: value ?? Number.NaN,
  });
  return [
    ...archiveStates.map((state) =>
      one('archive_state', verdict === null ? Number.NaN : Number(verdict.state === state), { state }),
    ),
    ...dayStates.map((state) => one('days', verdict?.days[state], { state })),
    ...gapReasons.map((reason) => one('gaps', verdict?.gaps[reason], { reason })),
    one('windows_inferred', verdict?.provisional),
    one('symbols_suspended', verdict?.suspended),
    one('damaged_files', verdict?.damaged.files),
  ];
}
