import type { FastifyReply } from 'fastify';
import type { HistoricalFormat } from '../contract/historical.ts';
import { rangesOf, slicePieces } from '../reading/export-ranges.ts';
import { fileFormats } from './content-negotiation.ts';
import type { Desk, SliceAsked } from './historical-service.ts';
import { type Pieces, paced } from './stream-response.ts';

export interface SliceAnswer {
  readonly pieces: AsyncGenerator<Uint8Array>;
  readonly fileName: string;
  readonly generation: number;
}

/**
 * Opens a slice as a file on its way: everything in it is of one generation, and checked. It ends with the answer.
 * @param signal aborted when nobody wants it any more
 */
export async function openSlice(
  desk: Desk,
  asked: SliceAsked & { readonly limit: number | null },
  format: Exclude<HistoricalFormat, 'json'>,
  reply: FastifyReply,
  signal: AbortSignal,
): Promise<SliceAnswer> {
  const leave = await desk.streaming.enter(signal);
  try {
    const { source, generation } = await sourceOf(desk, asked, format, leave, signal);
    const pieces = await paced(source, { gate: desk.computing, signal, onStall: () => reply.raw.destroy() });
    // A generator that was never begun does not come by its own end.
    const close = (): void =>
      void source.close().catch((error: unknown) => {
        desk.context.log.error({ err: error, slice: asked.name }, 'a slice could not be closed');
      });
    reply.raw.once('close', close);
    // Nor is told again of a client that went while the first piece was computed.
    if (reply.raw.destroyed) close();
    const told = heard(pieces, (error) => {
      if (!signal.aborted) desk.context.log.error({ err: error, slice: asked.name }, 'a slice broke off');
    });
    return { pieces: told, fileName: fileName(asked, generation, fileFormats[format].ending), generation };
  } catch (error) {
    leave();
    throw error;
  }
}

async function sourceOf(
  { history, computing }: Desk,
  asked: SliceAsked & { readonly limit: number | null },
  format: Exclude<HistoricalFormat, 'json'>,
  leave: () => void,
  signal: AbortSignal,
): Promise<{ source: Pieces; generation: number }> {
  const compute = await computing.enter(signal, false);
  try {
    return await history.reading(async (generation) => {
      const { files, defined, slice } = asked.step(generation.manifest);
      const query = await generation.open(files, defined, signal);
      try {
        const ranges = await rangesOf(query, slice, asked.limit, signal);
        const inFormat = { dataset: asked.dataset, slice, format: fileFormats[format].format };
        const pieces = slicePieces(query, inFormat, ranges, signal);
        let closing: Promise<void> | undefined;
        const end = async (): Promise<void> => {
          // Waits for what is still being computed: nothing may be closed under it.
          await pieces.return(undefined).catch(() => {});
          await query.close().finally(leave);
        };
        const close = (): Promise<void> => (closing ??= end());
        return { source: { pieces, close }, generation: generation.manifest.generation };
      } catch (error) {
        await query.close();
        throw error;
      }
    });
  } finally {
    compute();
  }
}

async function* heard(
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

const nameMax = 80;

/** A name that says what is in the file, in letters that every file system takes. */
function fileName({ name, symbol, from, to }: SliceAsked, generation: number, ending: string): string {
  const moment = (ms: number): string => new Date(ms).toISOString().replace(/[-:]|\.\d+/g, '');
  const parts = [
    name,
    ...(symbol === null ? [] : [symbol.replaceAll(/[^\w.-]+/g, '_').slice(0, nameMax)]),
    ...(from === null ? [] : [`from-${moment(from)}`]),
    ...(to === null ? [] : [`to-${moment(to)}`]),
    `generation-${generation}`,
  ];
  return `${parts.join('_')}.${ending}`;
}
