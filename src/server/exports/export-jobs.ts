import { Type } from 'typebox';
import { type DatasetName, datasets } from '../../archive/format/datasets.ts';
import { readSymbol } from '../../archive/journal/symbols.ts';
import { hourMs } from '../../base/window.ts';
import {
  ExportJob,
  ExportJobPath,
  ExportJobsQuery,
  ExportJobsResponse,
  ExportRequest,
  ExportRequestHeaders,
  FileHeaders,
  fileResponses,
} from '../../contract/export.ts';
import { paths } from '../../contract/paths.ts';
import { requireKeyHolder } from '../auth/authenticate.ts';
import type { RouteData } from '../auth/key-permissions.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { createIdempotencyConflictError, createTooManyJobsError, ProblemError } from '../http/problem-details.ts';
import { sendFile } from '../http/send-file.ts';
import type { HeldArchiveLease } from '../jobs/archive-lease.ts';
import { removeExport, startExportRunner, toExportPath } from '../jobs/export-runner.ts';
import { runWithService } from '../jobs/job-runner.ts';
import { createExportJobStore } from '../workspace/export-jobs.ts';
import { createObjectId, type ExportJobRow } from '../workspace/tables.ts';
import { parquetMediaType, toUntypedExchange } from './published-files.ts';

type ExportJobRequest = Type.Static<typeof ExportRequest>;

/** Checks an export request and removes repeated symbols. @throws ProblemError 400 that names each invalid field */
function requireValidExport({ archive }: ServiceContext, exportRequest: ExportJobRequest): ExportJobRequest {
  const { dataset, from, to, format, csv_safe } = exportRequest;
  const symbols = [...new Set(exportRequest.symbols ?? [])];
  const unknown = symbols.filter((symbol) => readSymbol(archive.state.db, symbol) === undefined);
  const timeless = datasets[dataset as DatasetName].time === null;
  const errors = [
    ...unknown.map((symbol) => ({
      name: `symbols[${exportRequest.symbols!.indexOf(symbol)}]`,
      reason: 'is not a symbol of this archive',
    })),
    ...(timeless && from !== undefined ? [{ name: 'from', reason: `${dataset} has no time column` }] : []),
    ...(timeless && to !== undefined ? [{ name: 'to', reason: `${dataset} has no time column` }] : []),
    ...(from !== undefined && to !== undefined && from >= to ? [{ name: 'to', reason: 'must be after from' }] : []),
    ...(csv_safe === true && format !== 'csv' ? [{ name: 'csv_safe', reason: 'requires format csv' }] : []),
  ];
  if (errors.length > 0)
    throw new ProblemError(400, 'The export request is invalid.', { code: 'invalid_body', errors });
  return { ...exportRequest, symbols };
}

const requestFields = ['dataset', 'symbols', 'from_ms', 'to_ms', 'format', 'csv_safe'] as const;

type RequestedColumns = Pick<ExportJobRow, (typeof requestFields)[number]>;

/** Whether two jobs have the same request. */
const isSameRequest = (a: RequestedColumns, b: RequestedColumns): boolean =>
  requestFields.every((name) => a[name] === b[name]);

/** URL of a job, relative to the service. */
const toExportJobUrl = ({ id }: Pick<ExportJobRow, 'id'>): string => `${paths.exportJobs}/${id}`;

/** Converts a job to its representation in the API. */
const toExportJob = (row: ExportJobRow): Type.Static<typeof ExportJob> => ({
  id: row.id,
  state: row.state,
  dataset: row.dataset,
  symbols: JSON.parse(row.symbols) as string[],
  from: row.from_ms,
  to: row.to_ms,
  format: row.format,
  csv_safe: row.csv_safe === 1,
  progress: { rows_done: row.rows_done, rows_total: row.rows_total },
  created_at: row.created_at,
  finished_at: row.finished_at,
  expires_at: row.expires_at,
  file: toExportFile(row),
  error: row.error,
});

function toExportFile(row: ExportJobRow) {
  const { bytes, sha256, rows, generation } = row;
  if (bytes === null || sha256 === null || rows === null || generation === null) return null;
  return { url: `${toExportJobUrl(row)}/file`, bytes, sha256, rows, generation };
}

/** Maximum number of finished jobs kept per key, and of jobs listed in one response. */
const finishedJobsMax = 1000;
const listedMax = 2000;

const mediaTypes: Readonly<Record<string, string>> = {
  parquet: parquetMediaType,
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson',
  arrow: 'application/vnd.apache.arrow.file',
};

/** Jobs of the key itself, whose datasets it permitted when it created them: permissions of a key do not change. */
const ownJobs: RouteData = { scope: 'export', datasets: [] };

/** `POST /api/v1/export` and its jobs, which a runner processes while the service runs. */
export function registerExportJobRoutes(app: App, context: ServiceContext, lease: HeldArchiveLease): void {
  const { archive, clock, log, random, settings, workspace } = context;
  const { keepHours, bytesMax, waitingMax } = settings.service.exports;
  const jobs = createExportJobStore(workspace.db, lease.leaseId, keepHours * hourMs);
  const runner = runWithService(app, lease, () => startExportRunner({ archive, jobs, clock, log, bytesMax }));

  const ownJob = async (request: Parameters<typeof requireKeyHolder>[0], id: string): Promise<ExportJobRow> => {
    const job = await jobs.get(requireKeyHolder(request).id, id, clock.nowMs());
    if (job === null) throw new ProblemError(404, 'This key has no such export.');
    return job;
  };

  app.post(
    paths.export,
    {
      config: {
        problems: [422],
        data: { scope: 'export', datasets: ({ body }) => [(body as ExportJobRequest).dataset as DatasetName] },
      },
      schema: {
        operationId: 'createExport',
        summary: 'Creates a file from a slice of the archive',
        tags: ['export'],
        headers: ExportRequestHeaders,
        body: ExportRequest,
        response: { 202: ExportJob },
      },
    },
    async (request, reply) => {
      const exportRequest = requireValidExport(context, request.body);
      const now = clock.nowMs();
      await jobs.expire(now);
      await requireRoom();
      const key = requireKeyHolder(request).id;
      const job = {
        id: createObjectId(context),
        key_id: key,
        idempotency_key: request.headers['idempotency-key'] ?? null,
        created_at: now,
        dataset: exportRequest.dataset,
        symbols: JSON.stringify(exportRequest.symbols ?? []),
        format: exportRequest.format,
        csv_safe: exportRequest.csv_safe === true ? (1 as const) : (0 as const),
        from_ms: exportRequest.from ?? null,
        to_ms: exportRequest.to ?? null,
      };
      const added = await jobs.add(job, waitingMax, finishedJobsMax);
      if (added === 'full') throw createTooManyJobsError(`This key has ${waitingMax} exports`);
      const row = 'known' in added ? added.known : added;
      if (!isSameRequest(row, job)) throw createIdempotencyConflictError();
      runner.wake();
      return reply.code(202).header('location', toExportJobUrl(row)).send(toExportJob(row));
    },
  );

  app.get(
    paths.exportJobs,
    {
      config: { data: ownJobs },
      schema: {
        operationId: 'listExports',
        summary: 'The exports of this key, newest first',
        tags: ['export'],
        querystring: ExportJobsQuery,
        response: { 200: ExportJobsResponse },
      },
    },
    async (request) => {
      const now = clock.nowMs();
      const limit = Math.min(request.query.limit ?? 100, listedMax);
      const page = await jobs.list(requireKeyHolder(request).id, limit, now);
      return { jobs: page.jobs.map(toExportJob), count: page.jobs.length, total: page.total, generated_at: now };
    },
  );

  app.get(
    `${paths.exportJobs}/:id`,
    {
      config: { data: ownJobs },
      schema: {
        operationId: 'getExport',
        summary: 'State and progress of an export',
        tags: ['export'],
        params: ExportJobPath,
        response: { 200: ExportJob },
      },
    },
    async (request) => toExportJob(await ownJob(request, request.params.id)),
  );

  app.delete(
    `${paths.exportJobs}/:id`,
    {
      config: { data: ownJobs },
      schema: {
        operationId: 'deleteExport',
        summary: 'Removes an export and its file; cancels it if it is not finished',
        tags: ['export'],
        params: ExportJobPath,
        response: { 204: Type.Null({ description: 'The export was removed.' }) },
      },
    },
    async (request, reply) => {
      const job = await ownJob(request, request.params.id);
      await jobs.remove(job.id);
      runner.cancel(job.id);
      removeExport(archive, job);
      return reply.code(204).send(null);
    },
  );

  app.route({
    method: ['GET', 'HEAD'],
    url: `${paths.exportJobs}/:id/file`,
    config: { problems: [409], data: ownJobs },
    schema: {
      operationId: 'downloadExport',
      summary: 'The file of a finished export',
      tags: ['export'],
      params: ExportJobPath,
      headers: FileHeaders,
      response: fileResponses(Object.values(mediaTypes).map((type) => type.split(';')[0]!)),
    },
    handler: async (request, reply) => {
      const job = await ownJob(request, request.params.id);
      if (job.bytes === null || job.sha256 === null)
        throw new ProblemError(409, `The export is ${job.state}; its file is available once its state is done.`);
      const file = { path: toExportPath(job), bytes: job.bytes, sha256: job.sha256 };
      const name = `${job.dataset}-${job.id}.${job.format}`;
      const sent = { ...file, name, type: mediaTypes[job.format]!, open: () => context.files.open(file) };
      return sendFile(sent, ...toUntypedExchange(request, reply), random);
    },
  });

  async function requireRoom(): Promise<void> {
    if ((await jobs.sumBytes()) < bytesMax) return;
    const first = await jobs.findFirstExpiry();
    const seconds = Math.max(1, Math.ceil(((first ?? clock.nowMs()) - clock.nowMs()) / 1000));
    throw new ProblemError(503, 'Earlier exports use up the space for exports. Remove some, or try again later.', {
      code: 'busy',
      headers: { 'retry-after': String(seconds) },
    });
  }
}
