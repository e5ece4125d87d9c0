import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createLayout } from '../../archive/format/layout.ts';
import { readRecordedDamage } from '../../archive/journal/published-files.ts';
import { toStateFilePath } from '../../archive/journal/state.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { readArchiveStatus } from '../../archive/read/archive-status.ts';
import { DamageError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import type { Log } from '../../base/ports.ts';
import type { Context } from '../../context/context.ts';
import { openConfiguredArchive } from '../../context/open-configured.ts';
import type { CompletenessCounts } from '../../contract/completeness-counts.ts';
import { paths } from '../../contract/paths.ts';
import { readArchiveSamples } from '../../metrics/archive-metrics.ts';
import { expositionContentType, formatExposition } from '../../metrics/exposition-format.ts';
import { openScheduleMetrics, type ScheduleMetrics } from '../../metrics/http-metrics.ts';
import { toBuildInfoSample, toRunSamples, toSuccessSamples } from '../../metrics/last-run.ts';
import { createListenError } from '../run/error-message.ts';
import { type LastRunRecord, listLastRunRecords } from '../run/last-runs.ts';
import type { Summary } from '../run/summary.ts';
import type { JobStatusBoard, ScheduleStatus } from './job-status.ts';

/** What is told on the health and metrics port of a schedule. */
export interface ScheduleMonitor {
  recordRun(summary: Summary): void;
  close(): void;
}

/** How long what was read of the archive is told again, in ms: a large manifest takes its time, and anyone may ask often. */
const cacheMsMax = 1000;

/** Opens the port that `schedule.port` names. Throws UsageError where it cannot be had. */
export async function openScheduleMonitor(
  context: Context,
  port: number,
  board: JobStatusBoard,
): Promise<ScheduleMonitor> {
  const { host } = context.settings.schedule;
  const counts = openScheduleMetrics(board.names);
  const reader = openStatusReader(context);
  const look = (): { seen: ScheduleStatus; readable: boolean } => {
    const known = reader.readLastRuns();
    return { seen: board.readStatus(known ?? [], context.clock.nowMs()), readable: known !== null };
  };
  const answers = {
    metricsType: expositionContentType,
    wrong() {
      const { seen, readable } = look();
      if (!readable) return [{ name: 'archive', reason: 'cannot be read' }, ...seen.faults];
      const damaged = reader.countDamaged();
      if (damaged === 0) return seen.faults;
      return [{ name: 'archive', reason: `has ${formatCount(damaged, 'file')} not as published` }, ...seen.faults];
    },
    verdict: () => reader.readVerdict(),
    metrics: async () => formatMetrics(context, counts, look().seen, reader),
  };
  const opened = await openHealthServer(host, port, answers, context.log).catch((error) => {
    counts.close();
    throw error;
  });
  context.log.info({ url: opened.url }, 'health and metrics are told');
  return {
    recordRun: ({ job, outcome }) => counts.recordRun(job, outcome),
    close() {
      opened.close();
      counts.close();
      reader.close();
    },
  };
}

async function formatMetrics(
  { version, clock, log }: Context,
  counts: ScheduleMetrics,
  seen: ScheduleStatus,
  reader: StatusReader,
) {
  const samples = [
    toBuildInfoSample(version),
    ...seen.runs.flatMap(({ run, succeededAt }) => [...toRunSamples(run), ...toSuccessSamples(run.job, succeededAt)]),
    ...readArchiveSamples(reader.readStatus, clock.nowMs(), log),
    ...seen.samples,
  ];
  return (await counts.formatText()) + (await formatExposition(samples));
}

interface StatusReader {
  /** The last runs; null where they cannot be read. */
  readLastRuns(): readonly LastRunRecord[] | null;
  /** How many files are known not to be as published. */
  countDamaged(): number;
  readStatus(): ReturnType<typeof readArchiveStatus>;
  /** How whole the archive is; null where it cannot be read. */
  readVerdict(): CompletenessCounts | null;
  close(): void;
}

type ReadAttempt<T> = { readonly value: T } | { readonly error: unknown };

/** Reads the archive, which is opened when it is first needed and again where its state was replaced. */
function openStatusReader(context: Context): StatusReader {
  let archive: Archive | null = null;
  const opened = (): Archive => {
    if (archive !== null && !archive.state.isFileCurrent()) {
      archive.close();
      archive = null;
    }
    const file = toStateFilePath(createLayout(context.settings.archive.output).privateFolder);
    // To make one anew is the work of a run, and may take long.
    if (context.disk.size(file) === null) throw new DamageError(`${file} is missing.`);
    archive ??= openConfiguredArchive(context, false);
    return archive;
  };
  const tried = <T>(read: () => T): ReadAttempt<T> => {
    try {
      return { value: read() };
    } catch (error) {
      return { error };
    }
  };
  let last: { readonly look: ReturnType<typeof readAll>; readonly atMs: number } | null = null;
  // All of one moment, so that readiness and metrics do not contradict each other.
  const readAll = () => ({
    known: tried(() => listLastRunRecords(opened().state.db, context.clock.nowMs())),
    damaged: tried(() => readRecordedDamage(opened().state.db).length),
    standing: tried(() => readArchiveStatus(opened(), context.clock.nowMs())),
  });
  const look = (): ReturnType<typeof readAll> => {
    const nowMs = context.clock.monotonicMs();
    if (last === null || nowMs - last.atMs >= cacheMsMax) {
      last = { look: readAll(), atMs: nowMs };
      const { known } = last.look;
      if ('error' in known) context.log.error({ err: known.error }, 'the archive cannot be read');
    }
    return last.look;
  };
  const valueOrThrow = <T>(of: ReadAttempt<T>): T => {
    if ('error' in of) throw of.error;
    return of.value;
  };
  const valueOrNull = <T>(of: ReadAttempt<T>): T | null => ('error' in of ? null : of.value);
  return {
    readLastRuns: () => valueOrNull(look().known),
    countDamaged: () => valueOrThrow(look().damaged),
    readStatus: () => valueOrThrow(look().standing),
    readVerdict: () => valueOrNull(look().standing)?.verdict ?? null,
    close: () => archive?.close(),
  };
}

/** What is answered on the port. */
export interface HealthHandlers {
  /** What is wrong, by the part that it is wrong with; none where all is well. */
  wrong(): readonly { readonly name: string; readonly reason: string }[];
  /** How whole the archive is; null where it cannot be read. */
  verdict(): CompletenessCounts | null;
  /** In the text format of Prometheus. */
  metrics(): Promise<string>;
  readonly metricsType: string;
}

export interface HealthServer {
  /** Where it listens, e.g. http://127.0.0.1:9464 */
  readonly url: string;
  close(): void;
}

/** What one client may take; times in milliseconds. A scrape is one small request. */
const limits = { headerBytesMax: 8192, headersMsMax: 5000, requestMsMax: 5000, idleMsMax: 5000, stalledMsMax: 10_000 };
const connectionsMax = 64;

/**
 * Opens the health and metrics port. Port 0 is a free one.
 * @throws UsageError where it cannot be had
 */
export async function openHealthServer(
  host: string,
  port: number,
  answers: HealthHandlers,
  log: Log,
): Promise<HealthServer> {
  const server = createServer(
    {
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: limits.headersMsMax,
      requestTimeout: limits.requestMsMax,
      keepAliveTimeout: limits.idleMsMax,
      connectionsCheckingInterval: 1000,
    },
    (request, response) => void handleRequest(request, response, answers, log),
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

async function handleRequest(request: IncomingMessage, response: ServerResponse, answers: HealthHandlers, log: Log) {
  // Nobody has anything to send here: what comes all the same is not waited for.
  if (request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined)
    response.setHeader('connection', 'close');
  try {
    const { status, type, body, headers } = await routeRequest(request, answers);
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

async function routeRequest(request: IncomingMessage, answers: HealthHandlers): Promise<HealthResponse> {
  const path = (request.url ?? '').split('?', 1)[0];
  if (path !== paths.health && path !== paths.ready && path !== paths.metrics)
    return toProblemResponse(404, 'Not Found', {
      detail: `There are ${paths.health}, ${paths.ready} and ${paths.metrics}.`,
    });
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return { ...toProblemResponse(405, 'Method Not Allowed'), headers: { allow: 'GET, HEAD' } };
  if (path === paths.health) return toJsonResponse(200, { status: 'ok' });
  if (path === paths.metrics) return { status: 200, type: answers.metricsType, body: await answers.metrics() };
  const wrong = answers.wrong();
  if (wrong.length === 0) return toJsonResponse(200, { status: 'ready', verdict: answers.verdict()?.state ?? null });
  const detail = wrong.map(({ name, reason }) => `The ${name} ${reason}.`).join(' ');
  return toProblemResponse(503, 'Service Unavailable', {
    detail,
    errors: wrong,
    verdict: answers.verdict()?.state ?? null,
  });
}
