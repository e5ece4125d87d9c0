import type { FastifyReply, FastifyRequest } from 'fastify';
import { standingSamples } from '../metrics/archive-metrics.ts';
import { textContentType, textOf } from '../metrics/exposition-format.ts';
import { openRequestMetrics } from '../metrics/http-metrics.ts';
import type { Sample } from '../metrics/metric-definitions.ts';
import { standingOf } from '../reading/archive-status.ts';
import type { ServiceContext } from './context.ts';

export interface Metrics {
  /** Counts a request from now until its answer is over, or its client gone. */
  follow(request: FastifyRequest, reply: FastifyReply): void;
  /** In the text format of Prometheus. */
  text(): Promise<string>;
  readonly contentType: string;
  close(): void;
}

/** The route of requests for which there is none: their paths are without end. */
const noRoute = 'none';

/** The metrics of one service: a process may hold several. */
export function openMetrics(context: ServiceContext): Metrics {
  const metrics = openRequestMetrics();
  const { clock } = context;
  // A connection carries many answers: what it had sent before the last one ended is counted.
  const counted = new WeakMap<object, number>();
  return {
    contentType: textContentType,
    follow(request, reply) {
      const { socket } = request.raw;
      const startedMs = clock.monotonicMs();
      metrics.begun();
      reply.raw.once('close', () => {
        const sent = socket.bytesWritten;
        metrics.ended({
          route: request.routeOptions.url ?? noRoute,
          method: request.method,
          status: reply.raw.writableFinished ? String(reply.raw.statusCode) : 'aborted',
          seconds: (clock.monotonicMs() - startedMs) / 1000,
          bytes: Math.max(0, sent - (counted.get(socket) ?? 0)),
        });
        counted.set(socket, sent);
      });
    },
    text: async () => (await metrics.text()) + (await textOf(samplesNow(context))),
    close: () => metrics.close(),
  };
}

function samplesNow({ archive, files, clock, log }: ServiceContext): Sample[] {
  const { bytes, files: count } = files.kept();
  return [
    { name: 'oddslake_cache_bytes', labels: {}, value: bytes },
    { name: 'oddslake_cache_files', labels: {}, value: count },
    ...standingSamples(() => standingOf(archive, clock.nowMs()), clock.nowMs(), log),
  ];
}
