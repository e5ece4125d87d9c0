import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Archive } from '../../archive/archive.ts';
import { createLayout } from '../../archive/format/layout.ts';
import { readRecordedDamage } from '../../archive/journal/published-files.ts';
import type { Summary } from '../../archive/journal/run-summary.ts';
import { toStateFilePath } from '../../archive/journal/state.ts';
import { readArchiveStatus } from '../../archive/read/archive-status.ts';
import { DamageError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import type { Log } from '../../base/ports.ts';
import type { Context } from '../../context/context.ts';
import { openConfiguredArchive } from '../../context/open-configured.ts';
import type { ArchiveState } from '../../contract/completeness-counts.ts';
import { paths } from '../../contract/paths.ts';
import {
  expositionContentType,
  formatExposition,
  openScheduleMetrics,
  type ScheduleMetrics,
} from '../../metrics/prometheus.ts';
import { readArchiveSamples, toBuildInfoSample, toRunSamples, toSuccessSamples } from '../../metrics/samples.ts';
import { createListenError } from '../run/error-message.ts';
import { type LastRunRecord, listLastRunRecords } from '../run/last-runs.ts';
import { type JobStatusBoard, pushTaskName, type ScheduleStatus } from './job-status.ts';

/** The health and metrics port of a schedule. */
export interface ScheduleMonitor {
  recordRun(summary: Summary): void;
  close(): void;
}

/** Maximum age of the cached archive status, in ms: reading a large manifest is slow, and requests may be frequent. */
const cacheMsMax = 1000;

/** Opens the port. Throws UsageError if that fails. */
export async function openScheduleMonitor(
  context: Context,
  port: number,
  board: JobStatusBoard,
): Promise<ScheduleMonitor> {
  const { schedule, bucket } = context.settings;
  const { host } = schedule;
  const counts = openScheduleMetrics(bucket.url === null ? board.names : [...board.names, pushTaskName]);
  const reader = openStatusReader(context);
  const readSchedule = (): { status: ScheduleStatus; readable: boolean } => {
    const known = reader.readLastRuns();
    return { status: board.readStatus(known ?? [], context.clock.nowMs()), readable: known !== null };
  };
  const handlers = {
    listFaults() {
      const { status, readable } = readSchedule();
      const damaged = reader.countDamaged();
      // An archive that is moved away may be gone between two reads.
      if (!readable || damaged === null) return [{ name: 'archive', reason: 'cannot be read' }, ...status.faults];
      if (damaged === 0) return status.faults;
      return [{ name: 'archive', reason: `has ${formatCount(damaged, 'damaged file')}` }, ...status.faults];
    },
    archiveState: () => reader.readArchiveState(),
    metrics: async () => formatMetrics(context, counts, readSchedule().status, reader),
  };
  const server = await openHealthServer(host, port, handlers, context.log).catch((error) => {
    counts.close();
    throw error;
  });
  context.log.info({ url: server.url }, 'serving health and metrics');
  return {
    recordRun: ({ job, outcome }) => counts.recordRun(job, outcome),
    close() {
      server.close();
      counts.close();
      reader.close();
    },
  };
}

async function formatMetrics(
  { version, clock, log }: Context,
  counts: ScheduleMetrics,
  schedule: ScheduleStatus,
  reader: StatusReader,
) {
  const samples = [
    toBuildInfoSample(version),
    ...schedule.runs.flatMap(({ run, succeededAt }) => [
      ...toRunSamples(run),
      ...toSuccessSamples(run.job, succeededAt),
    ]),
    ...readArchiveSamples(reader.readStatus, clock.nowMs(), log),
    ...schedule.samples,
  ];
  return (await counts.formatText()) + (await formatExposition(samples));
}

interface StatusReader {
  /** The last runs; null if they cannot be read. */
  readLastRuns(): readonly LastRunRecord[] | null;
  /** Number of known damaged files; null if it cannot be read. */
  countDamaged(): number | null;
  readStatus(): ReturnType<typeof readArchiveStatus>;
  /** Null if the archive cannot be read. */
  readArchiveState(): ArchiveState | null;
  close(): void;
}

type ReadAttempt<T> = { readonly value: T } | { readonly error: unknown };

/** Reads the archive. Opens it on first use, and again if its state file has been replaced. */
function openStatusReader(context: Context): StatusReader {
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
  const attempt = <T>(read: () => T): ReadAttempt<T> => {
    try {
      return { value: read() };
    } catch (error) {
      return { error };
    }
  };
  let last: { readonly results: ReturnType<typeof readAll>; readonly atMs: number } | null = null;
  // Read everything at once, so that readiness and metrics are consistent.
  const readAll = () => ({
    known: attempt(() => listLastRunRecords(openCurrent().state.db, context.clock.nowMs())),
    damaged: attempt(() => readRecordedDamage(openCurrent().state.db).length),
    status: attempt(() => readArchiveStatus(openCurrent(), context.clock.nowMs())),
  });
  const readCached = (): ReturnType<typeof readAll> => {
    const nowMs = context.clock.monotonicMs();
    if (last === null || nowMs - last.atMs >= cacheMsMax) {
      last = { results: readAll(), atMs: nowMs };
      const { known } = last.results;
      if ('error' in known) context.log.error({ err: known.error }, 'the archive cannot be read');
    }
    return last.results;
  };
  const valueOrThrow = <T>(of: ReadAttempt<T>): T => {
    if ('error' in of) throw of.error;
    return of.value;
  };
  const valueOrNull = <T>(of: ReadAttempt<T>): T | null => ('error' in of ? null : of.value);
  return {
    readLastRuns: () => valueOrNull(readCached().known),
    countDamaged: () => valueOrNull(readCached().damaged),
    readStatus: () => valueOrThrow(readCached().status),
    readArchiveState: () => valueOrNull(readCached().status)?.completeness.state ?? null,
    close: () => archive?.close(),
  };
}

/** Content of the responses on the port. */
interface HealthHandlers {
  /** Faults by component; empty if there are none. */
  listFaults(): readonly { readonly name: string; readonly reason: string }[];
  /** Null if the archive cannot be read. */
  archiveState(): ArchiveState | null;
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
  const faults = handlers.listFaults();
  if (faults.length === 0) return toJsonResponse(200, { status: 'ready', archive_state: handlers.archiveState() });
  const detail = faults.map(({ name, reason }) => `The ${name} ${reason}.`).join(' ');
  return toProblemResponse(503, 'Service Unavailable', {
    detail,
    errors: faults,
    archive_state: handlers.archiveState(),
  });
}
