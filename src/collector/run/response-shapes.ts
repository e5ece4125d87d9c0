import type { Archive } from '../../archive/archive.ts';
import { replaceShape } from '../../archive/journal/nightly-memory.ts';
import type { DriftLine } from '../../archive/journal/run-summary.ts';
import { createShapeSample, formatDrift, type ShapeSample } from '../../archive/journal/schema-drift.ts';
import type { ReceivedResponse, Upstream } from '../../client/upstream.ts';
import type { Context } from '../../context/context.ts';
import type { RunWarning } from './judge-run.ts';

const resources = ['markets', 'ticks', 'orderbook'] as const satisfies readonly Resource[];
type Resource = DriftLine['resource'];

/** The shapes of the responses of a run. */
export interface ResponseShapes {
  readonly samples: Readonly<Record<Resource, ShapeSample>>;
  /** Whether all market lists are complete. A field that is missing from one response may be present in others. */
  areListsComplete: boolean;
  /** Wraps a client so that its responses are sampled. */
  observeUpstream(upstream: Upstream): Upstream;
  /** Samples tick pages, whose decoder does not keep field names. */
  onResponse(response: ReceivedResponse): void;
}

/** Minimum bytes of tick pages to sample, and the share of all further bytes. */
const sampledBytesMin = 512 * 1024;
const sampledShare = 0.01;

export function createResponseShapes(): ResponseShapes {
  const samples = { markets: createShapeSample(), ticks: createShapeSample(), orderbook: createShapeSample() };
  let [receivedBytes, sampledBytes] = [0, 0];
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
        const response = await upstream.orderbook(query, signal);
        samples.orderbook.add(response.body);
        return response;
      },
    }),
    onResponse({ asked, body }) {
      if (asked.route !== 'ticks') return;
      receivedBytes += body.length;
      if (sampledBytes > sampledBytesMin + sampledShare * receivedBytes) return;
      sampledBytes += body.length;
      try {
        samples.ticks.add(JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8')));
      } catch {
        // Not JSON. The decoder reports it.
      }
    },
  };
}

/** The parts of a run that the comparison needs. */
interface DriftRun {
  readonly context: Pick<Context, 'clock' | 'log'>;
  readonly archive: Archive;
  readonly source: string | null;
  readonly warnings: RunWarning[];
}

/** Compares the shapes of the responses with those of earlier runs, and warns about changes. */
export function detectSchemaDrift(
  { context, archive, source, warnings }: DriftRun,
  { samples, areListsComplete }: ResponseShapes,
): DriftLine[] {
  return resources.flatMap((resource) => {
    const shape = resource === 'markets' && !areListsComplete ? null : samples[resource].inferShape();
    if (shape === null || shape.size === 0) return [];
    const drifts = replaceShape(archive.state.db, resource, shape, context.clock.nowMs(), source);
    if (drifts.length > 0) warnings.push(formatDrift(resource, drifts));
    return drifts.map((drift) => ({ resource, ...drift }));
  });
}
