import type { FastifyReply } from 'fastify';
import Negotiator from 'negotiator';
import { readKeyRanges, type SliceFormat, streamSlice, toSliceFormat } from '../../archive/query/export.ts';
import { type HistoricalFormat, historicalFormats } from '../../contract/historical.ts';
import { ProblemError } from '../http/problem-details.ts';
import { type ChunkSource, openPacedChunks } from '../http/stream-response.ts';
import type { HistoricalService, SliceRequest } from './historical-service.ts';

interface SliceResponse {
  readonly chunks: AsyncGenerator<Uint8Array>;
  readonly fileName: string;
  readonly generation: number;
}

export interface SizedSliceRequest extends SliceRequest {
  readonly limit: number | null;
  readonly isCsvSafe: boolean;
}

/**
 * Opens a slice as a file stream. All of its data is verified and from one generation. It is closed when the response
 * ends.
 * @param signal aborted when the client has disconnected
 */
export async function openSliceResponse(
  service: HistoricalService,
  sliceRequest: SizedSliceRequest,
  format: Exclude<HistoricalFormat, 'json'>,
  reply: FastifyReply,
  signal: AbortSignal,
): Promise<SliceResponse> {
  const release = await service.streamSemaphore.acquire(signal);
  try {
    const { source, generation } = await openChunkSource(service, sliceRequest, format, release, signal);
    const chunks = await openPacedChunks(source, {
      semaphore: service.computeSemaphore,
      signal,
      reply,
      onError: (error, note) => service.context.log.error({ err: error, slice: sliceRequest.name }, `a slice ${note}`),
    });
    return {
      chunks,
      fileName: formatFileName(sliceRequest, generation, fileFormats[format].extension),
      generation,
    };
  } catch (error) {
    release();
    throw error;
  }
}

async function openChunkSource(
  { history, computeSemaphore }: HistoricalService,
  sliceRequest: SizedSliceRequest,
  format: Exclude<HistoricalFormat, 'json'>,
  release: () => void,
  signal: AbortSignal,
): Promise<{ source: ChunkSource; generation: number }> {
  using _permit = await computeSemaphore.acquire(signal, false);
  return await history.read(async (generation) => {
    const { files, defined, slice } = sliceRequest.createStep(generation.manifest);
    const query = await generation.openQuery(files, defined, signal);
    try {
      const ranges = await readKeyRanges(query, slice, sliceRequest.limit, signal);
      const inFormat = {
        dataset: sliceRequest.dataset,
        slice,
        format: toSliceFormat(fileFormats[format].format, sliceRequest.isCsvSafe),
      };
      const chunks = streamSlice(query, inFormat, ranges, signal);
      let closing: Promise<void> | undefined;
      const end = async (): Promise<void> => {
        // Wait for the computation: nothing may be closed while it runs.
        await chunks.return(undefined).catch(() => {});
        await query.close().finally(release);
      };
      const close = (): Promise<void> => (closing ??= end());
      return { source: { chunks: chunks, close }, generation: generation.manifest.generation };
    } catch (error) {
      await query.close();
      throw error;
    }
  });
}

const symbolCharsMax = 80;

/** A descriptive file name in characters that every file system accepts. */
function formatFileName({ name, symbols, from, to }: SliceRequest, generation: number, ending: string): string {
  const moment = (ms: number): string => new Date(ms).toISOString().replace(/[-:]|\.\d+/g, '');
  const parts = [
    name,
    ...(symbols.length === 1 ? [symbols[0]!.replaceAll(/[^\w.-]+/g, '_').slice(0, symbolCharsMax)] : []),
    ...(symbols.length > 1 ? [`${symbols.length}-symbols`] : []),
    ...(from === null ? [] : [`from-${moment(from)}`]),
    ...(to === null ? [] : [`to-${moment(to)}`]),
    `generation-${generation}`,
  ];
  return `${parts.join('_')}.${ending}`;
}

interface FileFormat {
  /** The Content-Type of the response. */
  readonly type: string;
  readonly extension: string;
  readonly format: SliceFormat;
}

/** Formats that are files. */
export const fileFormats: Readonly<Record<Exclude<HistoricalFormat, 'json'>, FileFormat>> = {
  ndjson: { type: 'application/x-ndjson', extension: 'ndjson', format: 'ndjson' },
  csv: { type: 'text/csv; charset=utf-8', extension: 'csv', format: 'csv' },
  // https://www.iana.org/assignments/media-types/application/vnd.apache.arrow.stream
  arrow: { type: 'application/vnd.apache.arrow.stream', extension: 'arrows', format: 'arrow_stream' },
  parquet: { type: 'application/vnd.apache.parquet', extension: 'parquet', format: 'parquet' },
};

/** Media types for Accept, in order of preference. */
const formatByMediaType: ReadonlyMap<string, HistoricalFormat> = new Map([
  ['application/json', 'json'],
  ...Object.entries(fileFormats).map(([name, { type }]) => [type.split(';')[0]!, name as HistoricalFormat] as const),
  // Unregistered names for the same format.
  ['application/ndjson', 'ndjson'],
  ['application/jsonl', 'ndjson'],
]);

/** Negotiates the format of a response: the parameter, else Accept (RFC 9110), else JSON. @throws ProblemError 406 */
type NegotiateFormat<Format> = (requested: Format | undefined, accept: string | undefined) => Format;

/** @param formats those that the route supports */
export function createFormatNegotiator<Format extends HistoricalFormat>(
  formats: readonly Format[],
): NegotiateFormat<Format> {
  const isSupported = (format: HistoricalFormat): format is Format => (formats as readonly string[]).includes(format);
  const types = [...formatByMediaType].filter(([, format]) => isSupported(format)).map(([type]) => type);
  return (requested, accept) => {
    if (requested !== undefined) return requested;
    const best = new Negotiator({ headers: { accept } }).mediaType(types);
    const format = best === undefined ? undefined : formatByMediaType.get(best);
    if (format !== undefined && isSupported(format)) return format;
    throw new ProblemError(406, `Accept has no supported media type. Supported are ${types.join(', ')}.`);
  };
}

export const negotiateFormat = createFormatNegotiator(historicalFormats);
