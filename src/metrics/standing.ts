import type { Log } from '../core/log.ts';
import type { Sample } from './families.ts';

/** How the archive stands, as reading/standing.ts has it. */
interface Standing {
  readonly generation: number;
  /** Up to where every live symbol is covered but for what is lost, epoch ms; null where no symbol is live. */
  readonly reached: number | null;
  readonly ticksPublished: number;
  readonly ticksJournaled: number;
  readonly damaged: number;
  /** Since when every published byte has been hashed, epoch ms; null where some never were. */
  readonly verifiedThrough: number | null;
}

/** How the archive stands now; that it cannot be read is a figure, too, and leaves the others unknown. */
export function standingSamples(read: () => Standing, nowMs: number, log: Log): Sample[] {
  try {
    const now = read();
    const lag = now.reached === null ? Number.NaN : Math.max(0, nowMs - now.reached) / 1000;
    const verified = now.verifiedThrough === null ? Number.NaN : now.verifiedThrough / 1000;
    return samples(1, now.generation, lag, now.ticksPublished, now.ticksJournaled, now.damaged, verified);
  } catch (error) {
    log.error({ err: error }, 'the archive cannot be read');
    const { NaN: unknown } = Number;
    return samples(0, unknown, unknown, unknown, unknown, unknown, unknown);
  }
}

function samples(
  readable: number,
  generation: number,
  lag: number,
  published: number,
  journaled: number,
  damaged: number,
  verified: number,
): Sample[] {
  const one = (name: string, value: number): Sample => ({ name: `oddslake_${name}`, labels: {}, value });
  return [
    one('archive_readable', readable),
    one('generation', generation),
    one('watermark_lag_seconds', lag),
    one('ticks_published', published),
    one('ticks_journaled', journaled),
    one('damaged_files', damaged),
    one('verified_through_timestamp_seconds', verified),
  ];
}
