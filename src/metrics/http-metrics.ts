import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { ensureTrailingNewline } from './exposition-format.ts';
import { outcomes } from './last-run.ts';

/** One request that was answered, or whose client was gone before the end. */
export interface CompletedRequest {
  readonly route: string;
  readonly method: string;
  /** Of the answer, or `aborted`. */
  readonly status: string;
  readonly seconds: number;
  /** Sent, headers included. */
  readonly bytes: number;
}

/** What an HTTP service counts of its requests, and the process of itself, in a registry of its own. */
export interface RequestMetrics {
  recordStart(): void;
  recordEnd(answered: CompletedRequest): void;
  /** In the text format of Prometheus. */
  formatText(): Promise<string>;
  close(): void;
}

const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function openRequestMetrics(): RequestMetrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const requests = new Counter({
    registers,
    name: 'oddslake_http_requests_total',
    labelNames: ['route', 'method', 'status'],
    help: 'Requests answered, by route, method and status; status is "aborted" where the client was gone before the end',
  });
  const duration = new Histogram({
    registers,
    name: 'oddslake_http_request_duration_seconds',
    labelNames: ['route', 'method'],
    help: 'Seconds from a request to the end of its answer',
    buckets: secondsBuckets,
  });
  const sent = new Counter({
    registers,
    name: 'oddslake_http_response_bytes_total',
    help: 'Bytes sent, headers included',
  });
  const underWay = new Gauge({
    registers,
    name: 'oddslake_http_requests_in_flight',
    help: 'Requests that are being answered',
  });
  return {
    recordStart: () => underWay.inc(),
    recordEnd({ route, method, status, seconds, bytes }) {
      underWay.dec();
      requests.inc({ route, method, status });
      duration.observe({ route, method }, seconds);
      sent.inc(bytes);
    },
    formatText: async () => ensureTrailingNewline(await registry.metrics()),
    close: () => registry.clear(),
  };
}

/** What the process of a schedule counts: itself, and the runs since it began. */
export interface ScheduleMetrics {
  recordRun(job: string, outcome: string): void;
  /** In the text format of Prometheus. */
  formatText(): Promise<string>;
  close(): void;
}

/**  names the jobs that are scheduled: of a count that is not there yet the first step would be lost */
export function openScheduleMetrics(names: readonly string[]): ScheduleMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const runs = new Counter({
    registers: [registry],
    name: 'oddslake_schedule_runs_total',
    labelNames: ['name', 'outcome'],
    help: 'Runs that ended since the schedule began, by job and what they came to',
  });
  for (const name of names) for (const outcome of outcomes) runs.inc({ name, outcome }, 0);
  return {
    recordRun: (job, outcome) => runs.inc({ name: job, outcome }),
    formatText: async () => ensureTrailingNewline(await registry.metrics()),
    close: () => registry.clear(),
  };
}
