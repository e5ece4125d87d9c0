import type { Archive } from '../../archive/open-archive.ts';
import { type ShapeSample, startShape } from '../../core/infer-schema.ts';
import { type Drift, driftText } from '../../core/schema-drift.ts';
import { exchangeShape } from '../../state/schema-store.ts';
import type { ReceivedAnswer } from '../../upstream/options.ts';
import type { Upstream } from '../../upstream/upstream.ts';
import type { Context } from '../context.ts';

/** One field of the service's answers that is not what it was. */
export interface DriftLine extends Drift {
  readonly resource: Resource;
}

const resources = ['markets', 'ticks', 'orderbook'] as const;
type Resource = (typeof resources)[number];

/** What the answers of a run look like. */
export interface Shapes {
  readonly samples: Readonly<Record<Resource, ShapeSample>>;
  /** Whether every market list was had whole: what single answers lack may stand in the others. */
  areListsWhole: boolean;
  /** The same client, its answers looked at. */
  watch(upstream: Upstream): Upstream;
  /** Looks at pages of ticks, which are decoded without their fields being named. */
  onAnswer(answer: ReceivedAnswer): void;
}

/** Bytes of tick pages that are parsed to look at their fields in any case, and the share of the others. */
const lookedAtBytesMin = 512 * 1024;
const lookedAtShare = 0.01;

export function startShapes(): Shapes {
  const samples = { markets: startShape(), ticks: startShape(), orderbook: startShape() };
  let [came, lookedAt] = [0, 0];
  return {
    samples,
    areListsWhole: false,
    watch: (upstream) => ({
      ...upstream,
      async markets(query, signal) {
        const page = await upstream.markets(query, signal);
        for (const record of page.markets) samples.markets.add(record);
        return page;
      },
      async orderbook(query, signal) {
        const answer = await upstream.orderbook(query, signal);
        samples.orderbook.add(answer.body);
        return answer;
      },
    }),
    onAnswer({ asked, body }) {
      if (asked.route !== 'ticks') return;
      came += body.length;
      if (lookedAt > lookedAtBytesMin + lookedAtShare * came) return;
      lookedAt += body.length;
      try {
        samples.ticks.add(JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8')));
      } catch {
        // What is no JSON has no shape; the decoder tells of it.
      }
    },
  };
}

/** Compares what the answers look like with the runs before, and says what changed. */
export function driftStep(
  { context, archive, warnings }: { context: Pick<Context, 'clock' | 'log'>; archive: Archive; warnings: string[] },
  { samples, areListsWhole }: Shapes,
): DriftLine[] {
  return resources.flatMap((resource) => {
    const shape = resource === 'markets' && !areListsWhole ? null : samples[resource].shape();
    if (shape === null || shape.size === 0) return [];
    const drifts = exchangeShape(archive.state.db, resource, shape, context.clock.nowMs());
    if (drifts.length > 0) warnings.push(driftText(resource, drifts));
    return drifts.map((drift) => ({ resource, ...drift }));
  });
}
