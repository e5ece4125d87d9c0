import { Type } from 'typebox';
import type { DatasetName } from '../../archive/format/datasets.ts';
import { readSymbol } from '../../archive/journal/symbols.ts';
import { datasetShapes } from '../../archive/publish/prune-files.ts';
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
import type { App, ServiceContext } from '../http/context.ts';
import { ProblemError } from '../http/problem-details.ts';
import { sendFile } from '../http/send-file.ts';
import type { HeldArchiveLease } from '../jobs/archive-lease.ts';
import { generateRandomId, removeExport, toExportPath } from '../jobs/export-folder.ts';
import { startExportRunner } from '../jobs/export-runner.ts';
import { createExportJobStore } from '../workspace/export-jobs.ts';
import type { ExportJobRow } from '../workspace/tables.ts';
import { parquetMediaType, toUntypedExchange } from './published-files.ts';

type ExportJobRequest = Type.Static<typeof ExportRequest>;

/** The request, each symbol once. Throws where a field is no use, naming it. */
export function requireValidExport({ archive }: ServiceContext, asked: ExportJobRequest): ExportJobRequest {
  const { dataset, from, to } = asked;
  const symbols = [...new Set(asked.symbols ?? [])];
  const unknown = symbols.filter((symbol) => readSymbol(archive.state.db, symbol) === undefined);
  const timeless = datasetShapes[dataset as DatasetName].timeColumns === null;
  const errors = [
    ...unknown.map((symbol) => ({
      name: `symbols[${asked.symbols!.indexOf(symbol)}]`,
      reason: 'is no symbol that this archive knows',
    })),
    ...(timeless && from !== undefined ? [{ name: 'from', reason: `${dataset} has no time` }] : []),
    ...(timeless && to !== undefined ? [{ name: 'to', reason: `${dataset} has no time` }] : []),
    ...(from !== undefined && to !== undefined && from >= to
      ? [{ name: 'to', reason: 'expected a time after from' }]
      : []),
  ];
  if (errors.length > 0) throw new ProblemError(400, 'The export cannot be made as it is asked for.', { errors });
  return { ...asked, symbols };
}

const requestFields = ['dataset', 'symbols', 'from_ms', 'to_ms', 'format'] as const;

type RequestedColumns = Pick<ExportJobRow, (typeof requestFields)[number]>;

/** Whether two jobs are of the same request. */
export const isSameRequest = (a: RequestedColumns, b: RequestedColumns): boolean =>
  requestFields.every((name) => a[name] === b[name]);

/** Where a job is told of, relative to the service. */
export const toExportJobUrl = ({ id }: Pick<ExportJobRow, 'id'>): string => `${paths.exportJobs}/${id}`;

/** A job as clients see it. */
export const toExportJob = (row: ExportJobRow): Type.Static<typeof ExportJob> => ({
  id: row.id,
  state: row.state,
  dataset: row.dataset,
  symbols: JSON.parse(row.symbols) as string[],
  from: row.from_ms,
  to: row.to_ms,
  format: row.format,
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

/** Finished jobs of one key that are kept, and jobs of one answer. */
const keptMax = 1000;
const listedMax = 2000;

const mediaTypes: Readonly<Record<string, string>> = {
  parquet: parquetMediaType,
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson',
  arrow: 'application/vnd.apache.arrow.file',
};

/** `POST /api/v1/export` and the jobs that it makes; a runner works them off while the service runs. */
export function registerExportJobRoutes(
  app: App,
  context: ServiceContext,
  { leaseId, lostSignal }: HeldArchiveLease,
): void {
  const { archive, clock, log, random, settings, workspace } = context;
  const { keepHours, bytesMax, waitingMax } = settings.service.exports;
  const keepMs = keepHours * hourMs;
  const jobs = createExportJobStore(workspace.db, leaseId);
  let runner: ReturnType<typeof startExportRunner> | undefined;
  app.addHook('onReady', async () => {
    runner = startExportRunner({ archive, jobs, clock, log, keepMs, bytesMax });
    lostSignal.addEventListener('abort', () => void runner?.stop());
  });
  app.addHook('onClose', async () => runner?.stop());

  const ownJob = async (request: Parameters<typeof requireKeyHolder>[0], id: string): Promise<ExportJobRow> => {
    const job = await jobs.get(requireKeyHolder(request).id, id, clock.nowMs());
    if (job === null) throw new ProblemError(404, 'There is no such export of this key.');
    return job;
  };

  app.post(
    paths.export,
    {
      config: { problems: [422] },
      schema: {
        summary: 'Asks for a file of one slice of the archive',
        tags: ['export'],
        headers: ExportRequestHeaders,
        body: ExportRequest,
        response: { 202: ExportJob },
      },
    },
    async (request, reply) => {
      const asked = requireValidExport(context, request.body);
      const now = clock.nowMs();
      await jobs.expire(now);
      await requireRoom();
      const key = requireKeyHolder(toUntypedExchange(request, reply)[0]).id;
      const id = `${now.toString(36)}${generateRandomId(random)}`;
      const job = {
        id,
        key_id: key,
        idempotency_key: request.headers['idempotency-key'] ?? null,
        created_at: now,
        dataset: asked.dataset,
        symbols: JSON.stringify(asked.symbols ?? []),
        format: asked.format,
        from_ms: asked.from ?? null,
        to_ms: asked.to ?? null,
      };
      const added = await jobs.add(job, waitingMax, keptMax);
      if (added === 'full') {
        throw new ProblemError(429, `This key has ${waitingMax} exports waiting or under way: let one of them end.`, {
          headers: { 'retry-after': '60' },
        });
      }
      const row = 'known' in added ? added.known : added;
      if (!isSameRequest(row, job))
        throw new ProblemError(422, 'This Idempotency-Key was sent before with another body. Take a new one.');
      runner?.wake();
      return reply.code(202).header('location', toExportJobUrl(row)).send(toExportJob(row));
    },
  );

  app.get(
    paths.exportJobs,
    {
      schema: {
        summary: 'The exports that this key asked for, newest first',
        tags: ['export'],
        querystring: ExportJobsQuery,
        response: { 200: ExportJobsResponse },
      },
    },
    async (request, reply) => {
      const now = clock.nowMs();
      const limit = Math.min(request.query.limit ?? 100, listedMax);
      const found = await jobs.list(requireKeyHolder(toUntypedExchange(request, reply)[0]).id, limit, now);
      return { jobs: found.jobs.map(toExportJob), count: found.jobs.length, total: found.total, generated_at: now };
    },
  );

  app.get(
    `${paths.exportJobs}/:id`,
    {
      schema: {
        summary: 'How far an export is',
        tags: ['export'],
        params: ExportJobPath,
        response: { 200: ExportJob },
      },
    },
    async (request, reply) => toExportJob(await ownJob(toUntypedExchange(request, reply)[0], request.params.id)),
  );

  app.delete(
    `${paths.exportJobs}/:id`,
    {
      schema: {
        summary: 'Removes an export and its file; one that is not finished is broken off',
        tags: ['export'],
        params: ExportJobPath,
        response: { 204: Type.Null({ description: 'It is removed.' }) },
      },
    },
    async (request, reply) => {
      const [asked] = toUntypedExchange(request, reply);
      const job = await ownJob(asked, request.params.id);
      await jobs.remove(job.id);
      runner?.cancel(job.id);
      removeExport(archive, job);
      return reply.code(204).send(null);
    },
  );

  app.route({
    method: ['GET', 'HEAD'],
    url: `${paths.exportJobs}/:id/file`,
    config: { problems: [409] },
    schema: {
      summary: 'The file of an export that is done',
      tags: ['export'],
      params: ExportJobPath,
      headers: FileHeaders,
      response: fileResponses(Object.values(mediaTypes).map((type) => type.split(';')[0]!)),
    },
    handler: async (request, reply) => {
      const http = toUntypedExchange(request, reply);
      const job = await ownJob(http[0], request.params.id);
      if (job.bytes === null || job.sha256 === null)
        throw new ProblemError(409, `The export is ${job.state}: there is a file once it is done.`);
      const file = { path: toExportPath(job), bytes: job.bytes, sha256: job.sha256 };
      const name = `${job.dataset}-${job.id}.${job.format}`;
      const sent = { ...file, name, type: mediaTypes[job.format]!, open: () => context.files.open(file) };
      return sendFile(sent, ...http, random);
    },
  });

  async function requireRoom(): Promise<void> {
    if ((await jobs.sumBytes()) < bytesMax) return;
    const first = await jobs.findFirstExpiry();
    const seconds = Math.max(1, Math.ceil(((first ?? clock.nowMs()) - clock.nowMs()) / 1000));
    throw new ProblemError(503, 'The files of earlier exports take all the room there is: remove some, or wait.', {
      headers: { 'retry-after': String(seconds) },
    });
  }
}
