import type { FastifyReply } from 'fastify';
import Negotiator from 'negotiator';
import { readKeyRanges, type SliceFormat, streamSlice } from '../../archive/query/export.ts';
import type { HistoricalFormat } from '../../contract/historical.ts';
import { ProblemError } from '../http/problem-details.ts';
import { type ChunkSource, paceChunks } from '../http/stream-response.ts';
import type { HistoricalService, SliceRequest } from './historical-service.ts';

export interface SliceResponse {
  readonly chunks: AsyncGenerator<Uint8Array>;
  readonly fileName: string;
  readonly generation: number;
}

/**
 * Opens a slice as a file on its way: everything in it is of one generation, and checked. It ends with the answer.
 * @param signal aborted when nobody wants it any more
 */
export async function openSliceResponse(
  desk: HistoricalService,
  asked: SliceRequest & { readonly limit: number | null },
  format: Exclude<HistoricalFormat, 'json'>,
  reply: FastifyReply,
  signal: AbortSignal,
): Promise<SliceResponse> {
  const leave = await desk.streamSemaphore.acquire(signal);
  try {
    const { source, generation } = await openChunkSource(desk, asked, format, leave, signal);
    const pieces = await paceChunks(source, {
      semaphore: desk.computeSemaphore,
      signal,
      onStall: () => reply.raw.destroy(),
    });
    // A generator that was never begun does not come by its own end.
    const close = (): void =>
      void source.close().catch((error: unknown) => {
        desk.context.log.error({ err: error, slice: asked.name }, 'a slice could not be closed');
      });
    reply.raw.once('close', close);
    // Nor is told again of a client that went while the first piece was computed.
    if (reply.raw.destroyed) close();
    const told = reportStreamErrors(pieces, (error) => {
      if (!signal.aborted) desk.context.log.error({ err: error, slice: asked.name }, 'a slice broke off');
    });
    return { chunks: told, fileName: formatFileName(asked, generation, fileFormats[format].extension), generation };
  } catch (error) {
    leave();
    throw error;
  }
}

async function openChunkSource(
  { history, computeSemaphore }: HistoricalService,
  asked: SliceRequest & { readonly limit: number | null },
  format: Exclude<HistoricalFormat, 'json'>,
  leave: () => void,
  signal: AbortSignal,
): Promise<{ source: ChunkSource; generation: number }> {
  const compute = await computeSemaphore.acquire(signal, false);
  try {
    return await history.read(async (generation) => {
      const { files, defined, slice } = asked.createStep(generation.manifest);
      const query = await generation.openQuery(files, defined, signal);
      try {
        const ranges = await readKeyRanges(query, slice, asked.limit, signal);
        const inFormat = { dataset: asked.dataset, slice, format: fileFormats[format].format };
        const pieces = streamSlice(query, inFormat, ranges, signal);
        let closing: Promise<void> | undefined;
        const end = async (): Promise<void> => {
          // Waits for what is still being computed: nothing may be closed under it.
          await pieces.return(undefined).catch(() => {});
          await query.close().finally(leave);
        };
        const close = (): Promise<void> => (closing ??= end());
        return { source: { chunks: pieces, close }, generation: generation.manifest.generation };
      } catch (error) {
        await query.close();
        throw error;
      }
    });
  } finally {
    compute();
  }
}

async function* reportStreamErrors(
  pieces: AsyncGenerator<Uint8Array>,
  onError: (error: unknown) => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* pieces;
  } catch (error) {
    onError(error);
    throw error;
  }
}

const symbolCharsMax = 80;

/** A name that says what is in the file, in letters that every file system takes. */
function formatFileName({ name, symbol, from, to }: SliceRequest, generation: number, ending: string): string {
  const moment = (ms: number): string => new Date(ms).toISOString().replace(/[-:]|\.\d+/g, '');
  const parts = [
    name,
    ...(symbol === null ? [] : [symbol.replaceAll(/[^\w.-]+/g, '_').slice(0, symbolCharsMax)]),
    ...(from === null ? [] : [`from-${moment(from)}`]),
    ...(to === null ? [] : [`to-${moment(to)}`]),
    `generation-${generation}`,
  ];
  return `${parts.join('_')}.${ending}`;
}

interface FileFormat {
  /** As the answer's Content-Type has it. */
  readonly type: string;
  readonly extension: string;
  readonly format: SliceFormat;
}

/** The formats that are files. */
export const fileFormats: Readonly<Record<Exclude<HistoricalFormat, 'json'>, FileFormat>> = {
  ndjson: { type: 'application/x-ndjson', extension: 'ndjson', format: 'ndjson' },
  csv: { type: 'text/csv; charset=utf-8', extension: 'csv', format: 'csv' },
  // https://www.iana.org/assignments/media-types/application/vnd.apache.arrow.stream
  arrow: { type: 'application/vnd.apache.arrow.stream', extension: 'arrows', format: 'arrow_stream' },
  parquet: { type: 'application/vnd.apache.parquet', extension: 'parquet', format: 'parquet' },
};

/** What Accept may name, the best first where the client does not care. */
const formatByMediaType: ReadonlyMap<string, HistoricalFormat> = new Map([
  ['application/json', 'json'],
  ...Object.entries(fileFormats).map(([name, { type }]) => [type.split(';')[0]!, name as HistoricalFormat] as const),
  // Names in use for the same before they were registered.
  ['application/ndjson', 'ndjson'],
  ['application/jsonl', 'ndjson'],
]);

/** The format that a request asks for: by parameter, else by Accept (RFC 9110), else JSON. Throws ProblemError 406. */
export function negotiateFormat(asked: HistoricalFormat | undefined, accept: string | undefined): HistoricalFormat {
  if (asked !== undefined) return asked;
  const best = new Negotiator({ headers: { accept } }).mediaType([...formatByMediaType.keys()]);
  const format = best === undefined ? undefined : formatByMediaType.get(best);
  if (format !== undefined) return format;
  throw new ProblemError(
    406,
    `Accept names nothing that can be had here: ${[...formatByMediaType.keys()].join(', ')}.`,
  );
}
