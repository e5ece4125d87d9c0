import { replaceShape } from '../../archive/journal/nightly-memory.ts';
import { createShapeSample, type Drift, formatDrift, type ShapeSample } from '../../archive/journal/schema-drift.ts';
import type { Archive } from '../../archive/open-archive.ts';
import type { ReceivedResponse, Upstream } from '../../client/upstream.ts';
import type { Context } from '../../context/context.ts';

/** One field of the service's answers that is not what it was. */
export interface DriftLine extends Drift {
  readonly resource: Resource;
}

const resources = ['markets', 'ticks', 'orderbook'] as const;
type Resource = (typeof resources)[number];

/** What the answers of a run look like. */
export interface ResponseShapes {
  readonly samples: Readonly<Record<Resource, ShapeSample>>;
  /** Whether every market list was had whole: what single answers lack may stand in the others. */
  areListsComplete: boolean;
  /** The same client, its answers looked at. */
  observeUpstream(upstream: Upstream): Upstream;
  /** Looks at pages of ticks, which are decoded without their fields being named. */
  onResponse(answer: ReceivedResponse): void;
}

/** Bytes of tick pages that are parsed to look at their fields in any case, and the share of the others. */
const sampledBytesMin = 512 * 1024;
const sampledShare = 0.01;

export function createResponseShapes(): ResponseShapes {
  const samples = { markets: createShapeSample(), ticks: createShapeSample(), orderbook: createShapeSample() };
  let [came, lookedAt] = [0, 0];
  return {
    samples,
    areListsComplete: false,
    observeUpstream: (upstream) => ({
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
    onResponse({ asked, body }) {
      if (asked.route !== 'ticks') return;
      came += body.length;
      if (lookedAt > sampledBytesMin + sampledShare * came) return;
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
export function detectSchemaDrift(
  { context, archive, warnings }: { context: Pick<Context, 'clock' | 'log'>; archive: Archive; warnings: string[] },
  { samples, areListsComplete }: ResponseShapes,
): DriftLine[] {
  return resources.flatMap((resource) => {
    const shape = resource === 'markets' && !areListsComplete ? null : samples[resource].inferShape();
    if (shape === null || shape.size === 0) return [];
    const drifts = replaceShape(archive.state.db, resource, shape, context.clock.nowMs());
    if (drifts.length > 0) warnings.push(formatDrift(resource, drifts));
    return drifts.map((drift) => ({ resource, ...drift }));
  });
}
