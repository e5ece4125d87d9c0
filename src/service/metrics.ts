import type { FastifyReply, FastifyRequest } from 'fastify';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { standingOf } from '../reading/standing.ts';
import type { ServiceContext } from './context.ts';
import { lagOf } from './readiness.ts';

export interface Metrics {
  /** Counts a request from now until its answer is over, or its client gone. */
  follow(request: FastifyRequest, reply: FastifyReply): void;
  /** In the text format of Prometheus. */
  text(): Promise<string>;
  readonly contentType: string;
  close(): void;
}

const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** The route of requests for which there is none: their paths are without end. */
const noRoute = 'none';

/** The metrics of one service, in a registry of its own: a process may hold several. */
export function openMetrics(context: ServiceContext): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const requests = new Counter({
    ...{ registers, name: 'oddslake_http_requests_total', labelNames: ['route', 'method', 'status'] },
    help: 'Requests answered, by route, method and status; status is "aborted" where the client was gone before the end',
  });
  const seconds = new Histogram({
    ...{ registers, name: 'oddslake_http_request_duration_seconds', labelNames: ['route', 'method'] },
    help: 'Seconds from a request to the end of its answer',
    buckets: secondsBuckets,
  });
  const bytes = new Counter({
    ...{ registers, name: 'oddslake_http_response_bytes_total' },
    help: 'Bytes sent, headers included',
  });
  const underWay = new Gauge({
    ...{ registers, name: 'oddslake_http_requests_under_way' },
    help: 'Requests that are being answered',
  });
  const standing = standingGauges(registers);
  const { clock } = context;
  // A connection carries many answers: what it had sent before the last one ended is counted.
  const counted = new WeakMap<object, number>();
  return {
    contentType: registry.contentType,
    follow(request, reply) {
      const { socket } = request.raw;
      const startedMs = clock.monotonicMs();
      underWay.inc();
      reply.raw.once('close', () => {
        const labels = { route: request.routeOptions.url ?? noRoute, method: request.method };
        underWay.dec();
        requests.inc({ ...labels, status: reply.raw.writableFinished ? String(reply.raw.statusCode) : 'aborted' });
        seconds.observe(labels, (clock.monotonicMs() - startedMs) / 1000);
        const sent = socket.bytesWritten;
        bytes.inc(Math.max(0, sent - (counted.get(socket) ?? 0)));
        counted.set(socket, sent);
      });
    },
    text() {
      standing.read(context);
      return registry.metrics();
    },
    close: () => registry.clear(),
  };
}

function standingGauges(registers: Registry[]) {
  const gauge = (name: string, help: string) => new Gauge({ registers, name: `oddslake_${name}`, help });
  const readable = gauge('archive_readable', '1 where manifest and state can be read, else 0');
  const generation = gauge('generation', 'The published generation');
  const lag = gauge(
    'watermark_lag_seconds',
    'Seconds that the watermark lies behind now, but for what is lost; NaN where there is none',
  );
  const published = gauge('ticks_published', 'Ticks in the published files');
  const journaled = gauge('ticks_journaled', 'Ticks accepted and not published yet');
  const cachedBytes = gauge('cache_bytes', 'Bytes of published files, checked, that are in memory');
  const cachedFiles = gauge('cache_files', 'Published files, checked, that are in memory');
  return {
    read({ archive, files, clock, log }: ServiceContext): void {
      cachedBytes.set(files.kept().bytes);
      cachedFiles.set(files.kept().files);
      try {
        const now = standingOf(archive);
        readable.set(1);
        generation.set(now.generation);
        lag.set(lagOf(now.reached, clock.nowMs()) ?? Number.NaN);
        published.set(now.ticksPublished);
        journaled.set(now.ticksJournaled);
      } catch (error) {
        log.error({ err: error }, 'the archive cannot be read');
        readable.set(0);
        for (const one of [generation, lag, published, journaled]) one.set(Number.NaN);
      }
    },
  };
}
