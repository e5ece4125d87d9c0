import { join } from 'node:path';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Archive } from '../../archive/archive.ts';
import type { FileEntry } from '../../archive/read/verified-files.ts';
import { openTradesReader, type TradesReader } from '../../backtest/data/stored-trades.ts';
import { DamageError } from '../../base/errors.ts';
import {
  type BacktestTradesFormat,
  BacktestTradesQuery,
  backtestTradesFormats,
  backtestTradesResponses,
} from '../../contract/backtest-trades.ts';
import { FileHeaders } from '../../contract/export-manifest.ts';
import { paths } from '../../contract/paths.ts';
import { stateLimitMax } from '../../contract/query-parameters.ts';
import { ObjectPath } from '../../contract/strategies.ts';
import { toUntypedExchange } from '../exports/export-routes.ts';
import { resolveLimit } from '../history/historical-service.ts';
import { decodeTradeCursor, encodeTradeCursor } from '../history/page-cursor.ts';
import { createFormatNegotiator, fileFormats } from '../history/slice-response.ts';
import { createFairSemaphore, type FairSemaphore } from '../http/fair-semaphore.ts';
import { createNotCsvError, createNotPagedError, ProblemError } from '../http/problem-details.ts';
import { sendFile } from '../http/send-file.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { createDisconnectSignal, openPacedChunks, sendChunks, toRequestError } from '../http/stream-response.ts';
import { toTradesFolder, toTradesPath } from '../jobs/trades-files.ts';
import type { ListedBacktest } from '../workspace/backtest-store.ts';
import { generateRandomId } from '../workspace/tables.ts';
import type { BacktestService } from './backtest-routes.ts';
import { createMissingObjectError, getOwner } from './user-resource.ts';

const negotiateTradesFormat = createFormatNegotiator(backtestTradesFormats);

/** Maximum number of waiting requests per permit and user. */
const waitingPerPermitMax = 16;

/** `GET /api/v1/backtest/{id}/trades`: all trades of a finished backtest. */
export function registerBacktestTradesRoute(app: App, context: ServiceContext, { jobs }: BacktestService): void {
  const { archive, clock, random, settings } = context;
  const { queriesConcurrentMax: permits, rowsLimitMax } = settings.service;
  const reader = openTradesReader(archive, toTradesFolder(archive), generateRandomId(random));
  app.addHook('onClose', () => reader.close());
  // Held while a query is computing.
  const computing = createFairSemaphore(permits, waitingPerPermitMax * permits);
  // Held for CSV until the response ends.
  const streaming = createFairSemaphore(permits, waitingPerPermitMax * permits);

  app.route({
    method: ['GET', 'HEAD'],
    url: `${paths.backtest}/:id/trades`,
    config: { access: 'user', problems: [409, 410] },
    schema: {
      operationId: 'listBacktestTrades',
      summary: 'All trades of a finished backtest, as pages or as a file',
      tags: ['users'],
      params: ObjectPath,
      querystring: stateLimitMax(BacktestTradesQuery, rowsLimitMax),
      headers: FileHeaders,
      response: backtestTradesResponses,
    },
    handler: async (request, reply) => {
      const signal = createDisconnectSignal(reply);
      try {
        const { id } = request.params;
        const { csv_safe: isCsvSafe = false, cursor, limit } = request.query;
        reply.header('vary', 'accept');
        const format = negotiateTradesFormat(request.query.format, request.headers.accept);
        requireMatchingFormat(format, request.query);
        const { owner, workspace } = getOwner(request);
        const { file, rows } = requireTradesFile(archive, await jobs.getListed({ owner, workspace }, id));
        const name = `backtest-${id}-trades.${format}`;
        if (format === 'parquet') {
          const sent = { ...file, name, type: fileFormats.parquet.type, open: () => context.files.open(file) };
          return await sendFile(sent, ...toUntypedExchange(request, reply), random);
        }
        // Checks the hash.
        (await context.files.open(file)).close();
        const path = join(archive.layout.root, file.path);
        const compute = computing.forHolder(owner);
        if (format === 'csv') {
          const open = () => reader.openTexts(path, isCsvSafe ? 'csv_safe' : 'csv', signal);
          reply.header('content-disposition', `attachment; filename="${name}"`).type(fileFormats.csv.type);
          const source = { open, id, compute, stream: streaming.forHolder(owner), signal };
          return await sendTexts(context, source, ...toUntypedExchange(request, reply));
        }
        const after = decodeTradeCursor(id, cursor);
        using _permit = await compute.acquire(signal);
        const { trades, next } = await reader.readPage(path, after, resolveLimit(limit, rowsLimitMax), signal);
        const next_cursor = next === null ? null : encodeTradeCursor(id, next);
        const page = { trades, count: trades.length, total: rows, next_cursor, generated_at: clock.nowMs() };
        return reply.send(page);
      } catch (error) {
        if (error instanceof DamageError) {
          context.log.error({ err: error, backtest: request.params.id }, 'the trades of a backtest are damaged');
          throw createDamagedTradesError();
        }
        throw toRequestError(error, signal);
      }
    },
  });
}

/** No repair of the archive restores the file: it is not published. */
const createDamagedTradesError = (): ProblemError =>
  new ProblemError(503, 'The file with the trades of the backtest is damaged. Run the backtest again.', {
    code: 'damaged_data',
  });

interface FormatParameters {
  readonly csv_safe?: boolean;
  readonly cursor?: string;
  readonly limit?: number;
}

/** @throws ProblemError 400 for a parameter of another format */
function requireMatchingFormat(format: BacktestTradesFormat, { csv_safe, cursor, limit }: FormatParameters): void {
  if (csv_safe === true && format !== 'csv') throw createNotCsvError();
  if (format === 'json') return;
  if (cursor !== undefined) throw createNotPagedError('cursor');
  if (limit !== undefined) throw createNotPagedError('limit');
}

/**
 * The file with the trades of a backtest, and their number.
 * @throws ProblemError 404 without a backtest, 409 if it is not done, 410 if its trades were not stored
 */
function requireTradesFile(
  { disk, layout }: Archive,
  backtest: ListedBacktest | null,
): { readonly file: FileEntry; readonly rows: number } {
  if (backtest === null) throw createMissingObjectError('backtest');
  const { id, state, error, trades_rows: rows, trades_bytes: bytes, trades_sha256: sha256 } = backtest;
  if (state === 'waiting' || state === 'running')
    throw new ProblemError(409, `The backtest is ${state}; its trades are available once its state is done.`);
  if (state !== 'done') {
    const reason = error === null ? '' : ` ${error}`;
    throw new ProblemError(409, `The backtest failed: it has no trades.${reason}`);
  }
  if (bytes === null || sha256 === null)
    throw createNotStoredError(
      `The ${rows} trades of the backtest were not stored, because the files of your backtests would have been too large. Remove backtests, and run it again.`,
    );
  const path = toTradesPath(id);
  if (disk.size(join(layout.root, path)) === null)
    throw createNotStoredError('The file with the trades of the backtest is missing. Run the backtest again.');
  return { file: { path, bytes, sha256 }, rows: rows! };
}

const createNotStoredError = (detail: string): ProblemError =>
  new ProblemError(410, detail, { code: 'trades_not_stored' });

interface TextSource {
  readonly id: string;
  readonly compute: FairSemaphore;
  readonly stream: FairSemaphore;
  readonly signal: AbortSignal;
  open(): ReturnType<TradesReader['openTexts']>;
}

async function sendTexts(
  { log }: ServiceContext,
  { id, compute, stream, signal, open }: TextSource,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const release = await stream.acquire(signal);
  try {
    const { chunks, close } = await open();
    const paced = await openPacedChunks(
      { chunks, close: () => close().finally(release) },
      {
        semaphore: compute,
        signal,
        reply,
        onError: (error, note) => log.error({ err: error, backtest: id }, `the trades of a backtest: the file ${note}`),
      },
    );
    return sendChunks(request, reply, paced);
  } catch (error) {
    release();
    throw error;
  }
}
