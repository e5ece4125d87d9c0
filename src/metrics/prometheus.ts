import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { outcomes } from '../archive/journal/run-summary.ts';
import { metricFamilies, type Sample } from './metric-definitions.ts';

/** Formats samples in the Prometheus text format, ordered by family. */
export async function formatExposition(samples: readonly Sample[]): Promise<string> {
  const registry = new Registry();
  const byName = Map.groupBy(samples, ({ name }) => name);
  for (const [name, { help, labels }] of Object.entries(metricFamilies)) {
    const own = byName.get(name);
    if (own === undefined) continue;
    const gauge = new Gauge({ registers: [registry], name, help, labelNames: labels });
    for (const { labels: values, value } of own) gauge.set(values, value);
  }
  return byName.size === 0 ? '' : ensureTrailingNewline(await registry.metrics());
}

const ensureTrailingNewline = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`);

/** Content type of the text format, version 0.0.4. */
export const expositionContentType = Registry.PROMETHEUS_CONTENT_TYPE;

/** A registry with the metrics of the process. */
function openRegistry() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return {
    registry,
    /** Returns the metrics in the Prometheus text format. */
    formatText: async () => ensureTrailingNewline(await registry.metrics()),
    close: () => registry.clear(),
  };
}

/** A request that is finished: its response was sent, or its client disconnected. */
interface CompletedRequest {
  readonly route: string;
  readonly method: string;
  /** Status code, or `aborted`. */
  readonly status: string;
  readonly seconds: number;
  /** Bytes sent, including headers. */
  readonly bytes: number;
}

const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/**
 * Metrics of HTTP requests and of the process, in a separate registry.
 * @param getCacheResults numbers of requests for cacheable responses since the start, by result
 * @param dropReasons their counters start at 0: Prometheus misses the first increment of a new series
 */
export function openRequestMetrics(
  getCacheResults: () => Readonly<Record<string, number>>,
  dropReasons: readonly string[],
) {
  const { registry, ...text } = openRegistry();
  const registers = [registry];
  const requests = new Counter({
    registers,
    name: 'oddslake_http_requests_total',
    labelNames: ['route', 'method', 'status'],
    help: 'Requests by route, method and status; status is "aborted" if the client disconnected before the end',
  });
  const duration = new Histogram({
    registers,
    name: 'oddslake_http_request_duration_seconds',
    labelNames: ['route', 'method'],
    help: 'Seconds from a request to the end of its response',
    buckets: secondsBuckets,
  });
  const sent = new Counter({
    registers,
    name: 'oddslake_http_response_bytes_total',
    help: 'Bytes sent, including headers',
  });
  const inFlight = new Gauge({
    registers,
    name: 'oddslake_http_requests_in_flight',
    help: 'Requests in progress',
  });
  new Counter({
    registers,
    name: 'oddslake_response_cache_requests_total',
    labelNames: ['result'],
    help: 'Requests for pages of the history by result: hit, miss (read), shared (waited for the read of an equal request), not_modified (304)',
    collect() {
      this.reset();
      for (const [result, count] of Object.entries(getCacheResults())) this.inc({ result }, count);
    },
  });
  const drops = new Counter({
    registers,
    name: 'oddslake_http_connections_dropped_total',
    labelNames: ['reason'],
    help: 'Connections that the service dropped to protect other clients, by reason',
  });
  for (const reason of dropReasons) drops.inc({ reason }, 0);
  return {
    recordStart: () => inFlight.inc(),
    recordEnd({ route, method, status, seconds, bytes }: CompletedRequest) {
      inFlight.dec();
      requests.inc({ route, method, status });
      duration.observe({ route, method }, seconds);
      sent.inc(bytes);
    },
    /** Counts a connection that the service dropped to protect other clients. */
    recordDrop: (reason: string) => drops.inc({ reason }),
    ...text,
  };
}

/** Metrics of a schedule: its process, and the runs since it started. */
export type ScheduleMetrics = ReturnType<typeof openScheduleMetrics>;

/** @param names the scheduled jobs. Their counters start at 0: Prometheus misses the first increment of a new series. */
export function openScheduleMetrics(names: readonly string[]) {
  const { registry, ...text } = openRegistry();
  const runs = new Counter({
    registers: [registry],
    name: 'oddslake_schedule_runs_total',
    labelNames: ['name', 'outcome'],
    help: 'Runs that ended since the schedule started, by job and outcome',
  });
  for (const name of names) for (const outcome of outcomes) runs.inc({ name, outcome }, 0);
  return {
    recordRun: (job: string, outcome: string) => runs.inc({ name: job, outcome }),
    ...text,
  };
}
