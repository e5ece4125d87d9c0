import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Archive } from '../../archive/archive.ts';
import { createLayout } from '../../archive/format/layout.ts';
import type { Summary } from '../../archive/journal/run-summary.ts';
import { toStateFilePath } from '../../archive/journal/state.ts';
import { type ArchiveStatus, readArchiveStatus } from '../../archive/read/archive-status.ts';
import { type Facts, type Judgement, judge } from '../../archive/read/judge.ts';
import { DamageError } from '../../base/errors.ts';
import type { Log } from '../../base/ports.ts';
import type { Context } from '../../context/context.ts';
import { openConfiguredArchive } from '../../context/open-configured.ts';
import type { ArchiveState } from '../../contract/completeness-counts.ts';
import type { FindingKind } from '../../contract/finding.ts';
import { paths } from '../../contract/paths.ts';
import {
  expositionContentType,
  formatExposition,
  openScheduleMetrics,
  type ScheduleMetrics,
} from '../../metrics/prometheus.ts';
import { createListenError } from '../run/error-message.ts';
import { type LastRunRecord, listLastRunRecords, listMonitorSamples } from '../run/last-runs.ts';
import { type JobStatusBoard, pushTaskName, type ScheduleStatus } from './job-status.ts';

/** Maximum age of the cached archive status, in ms: reading a large manifest is slow, and requests may be frequent. */
const cacheMsMax = 1000;

/** The health and metrics port of a schedule. */
export type ScheduleMonitor = Awaited<ReturnType<typeof openScheduleMonitor>>;

/** Opens the port. Throws UsageError if that fails. */
export async function openScheduleMonitor(context: Context, port: number, board: JobStatusBoard) {
  const { schedule, bucket, service } = context.settings;
  const { host } = schedule;
  const counts = openScheduleMetrics(bucket.url === null ? board.names : [...board.names, pushTaskName]);
  const reader = openStatusReader(context);
  const readSchedule = (): { status: ScheduleStatus; facts: Facts } => {
    const nowMs = context.clock.nowMs();
    const { known, archive } = reader.read();
    const status = board.readStatus(known ?? [], nowMs);
    return {
      status,
      facts: { nowMs, lagMsMax: service.lagSecondsMax * 1000, status: archive, lateJobs: status.faults },
    };
  };
  const handlers = {
    judge() {
      const { facts } = readSchedule();
      return { ...judge(facts), archiveState: facts.status?.completeness.state ?? null };
    },
    metrics: async () => formatMetrics(context, counts, readSchedule()),
  };
  const server = await openHealthServer(host, port, handlers, context.log).catch((error) => {
    counts.close();
    throw error;
  });
  context.log.info({ url: server.url }, 'serving health and metrics');
  return {
    recordRun: ({ job, outcome }: Summary) => counts.recordRun(job, outcome),
    close() {
      server.close();
      counts.close();
      reader.close();
    },
  };
}

async function formatMetrics(
  { version }: Context,
  counts: ScheduleMetrics,
  { status, facts }: { readonly status: ScheduleStatus; readonly facts: Facts },
) {
  const samples = [...listMonitorSamples(version, status.runs, facts), ...status.samples];
  return (await counts.formatText()) + (await formatExposition(samples));
}

type StatusReader = ReturnType<typeof openStatusReader>;

/** Reads the archive. Opens it on first use, and again if its state file has been replaced. */
function openStatusReader(context: Context) {
  let archive: Archive | null = null;
  const openCurrent = (): Archive => {
    if (archive !== null && !archive.state.isFileCurrent()) {
      archive.close();
      archive = null;
    }
    const file = toStateFilePath(createLayout(context.settings.archive.output).privateFolder);
    // Only a run rebuilds the state, which may take a long time.
    if (context.disk.size(file) === null) throw new DamageError(`${file} is missing.`);
    archive ??= openConfiguredArchive(context, false);
    return archive;
  };
  const attempt = <T>(read: () => T): T | null => {
    try {
      return read();
    } catch (err) {
      context.log.error({ err }, 'the archive cannot be read');
      return null;
    }
  };
  let last: { readonly results: ReturnType<StatusReader['read']>; readonly atMs: number } | null = null;
  return {
    /** The last runs and the status of the archive; null if they cannot be read. */
    read(): { readonly known: readonly LastRunRecord[] | null; readonly archive: ArchiveStatus | null } {
      const atMs = context.clock.monotonicMs();
      if (last === null || atMs - last.atMs >= cacheMsMax) {
        const known = attempt(() => listLastRunRecords(openCurrent().state.db, context.clock.nowMs()));
        const archive = known && attempt(() => readArchiveStatus(openCurrent(), context.clock.nowMs()));
        last = { results: { known, archive }, atMs };
      }
      return last.results;
    },
    close: () => archive?.close(),
  };
}

/** Content of the responses on the port. */
interface HealthHandlers {
  /** The state is null if the archive cannot be read. */
  judge(): Judgement & { readonly archiveState: ArchiveState | null };
  /** Returns the metrics in the Prometheus text format. */
  metrics(): Promise<string>;
}

/** Limits on a connection. Times are in milliseconds. A scrape is one small request. */
const limits = { headerBytesMax: 8192, headersMsMax: 5000, requestMsMax: 5000, idleMsMax: 5000, stalledMsMax: 10_000 };
const connectionsMax = 64;

/**
 * Opens the health and metrics port. Port 0 selects a free port.
 * @throws UsageError if that fails
 */
async function openHealthServer(host: string, port: number, handlers: HealthHandlers, log: Log) {
  const server = createServer(
    {
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersMsMax,
      requestTimeout: limits.requestMsMax,
      keepAliveTimeout: limits.idleMsMax,
      connectionsCheckingInterval: 1000,
    },
    (request, response) => void handleRequest(request, response, handlers, log),
  );
  server.maxConnections = connectionsMax;
  server.setTimeout(limits.stalledMsMax);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(createListenError('schedule.port', port, host, error)));
    server.listen({ host, port }, resolve);
  });
  server.on('error', (err) => log.warn({ err }, 'the health and metrics port has failed'));
  return {
    url: getListenUrl(server, host),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function getListenUrl(server: Server, host: string): string {
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

async function handleRequest(request: IncomingMessage, response: ServerResponse, handlers: HealthHandlers, log: Log) {
  // Do not wait for a request body, which no route accepts.
  if (request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined)
    response.setHeader('connection', 'close');
  try {
    const { status, type, body, headers } = await routeRequest(request, handlers);
    response.writeHead(status, {
      'content-type': type,
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
    });
    response.end(request.method === 'HEAD' ? undefined : body);
  } catch (err) {
    log.error({ err }, 'a request to the health and metrics port failed');
    response.writeHead(500, { connection: 'close' }).end();
  }
}

/** The findings with which a schedule does not do its work. */
const unreadyKinds: ReadonlySet<FindingKind> = new Set(['archive unreadable', 'damage', 'late job']);

interface HealthResponse {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Record<string, string>;
}

const toJsonResponse = (status: number, value: object): HealthResponse => ({
  status,
  type: status < 400 ? 'application/json' : 'application/problem+json',
  body: `${JSON.stringify(value)}\n`,
});

const toProblemResponse = (status: number, title: string, more: object = {}): HealthResponse =>
  toJsonResponse(status, { type: 'about:blank', title, status, ...more });

async function routeRequest(request: IncomingMessage, handlers: HealthHandlers): Promise<HealthResponse> {
  const path = (request.url ?? '').split('?', 1)[0];
  if (path !== paths.health && path !== paths.ready && path !== paths.metrics)
    return toProblemResponse(404, 'Not Found', {
      detail: `Available paths: ${paths.health}, ${paths.ready} and ${paths.metrics}.`,
    });
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return { ...toProblemResponse(405, 'Method Not Allowed'), headers: { allow: 'GET, HEAD' } };
  if (path === paths.health) return toJsonResponse(200, { status: 'ok' });
  if (path === paths.metrics) return { status: 200, type: expositionContentType, body: await handlers.metrics() };
  const { verdict, findings, archiveState } = handlers.judge();
  const judged = {
    archive_state: archiveState,
    verdict: { state: verdict.state, text: verdict.text },
    findings: findings.map(({ kind, severity, message }) => ({ kind, severity, message })),
  };
  const wrong = findings.filter(({ kind }) => unreadyKinds.has(kind));
  if (wrong.length === 0) return toJsonResponse(200, { status: 'ready', ...judged });
  return toProblemResponse(503, 'Service Unavailable', {
    detail: wrong.map(({ message }) => `${message[0]!.toUpperCase()}${message.slice(1)}.`).join(' '),
    errors: wrong.map(({ kind, message }) => ({ name: kind, reason: message })),
    ...judged,
  });
}
