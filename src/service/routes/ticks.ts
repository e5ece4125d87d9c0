import { paths } from '../../contract/paths.ts';
import { type DeclaredGap, TicksQuery, TicksResponse } from '../../contract/schemas.ts';
import { exitCodes, OddslakeError } from '../../core/errors.ts';
import { openTickReader, type TickRangeResult } from '../../reading/read-ticks.ts';
import { createUnknownSymbolError, requireWindow } from '../common-errors.ts';
import type { ServiceContext } from '../context.ts';
import type { App } from '../fastify-types.ts';
import { ProblemError } from '../problem-details.ts';
import { createTickSerializer } from '../serialize-ticks.ts';

/** Ticks of an answer whose request has no limit, where the service's cap is not less. */
const limitDefault = 1000;

const comma = Buffer.from(',');

/** `/api/v1/ticks`: the recent and the old ticks of one symbol, without a seam. */
export function registerTicksRoutes(app: App, { archive, current, files, settings, clock }: ServiceContext): void {
  const { cacheBytesMax, ticksLimitMax } = settings.service;
  // Half of what published files may take for decoded ticks, and half for texts that were sent.
  const readTicks = openTickReader(archive, current, files, cacheBytesMax / 2);
  const textOf = createTickSerializer(cacheBytesMax / 2);
  app.get(
    paths.ticks,
    {
      schema: {
        summary: 'The ticks of one symbol',
        description:
          'Ascending in time, each moment once: what is published and what is not yet, as one. From `from` on; or, without `from`, the latest before `to`. `from` and `to` of the answer are the window that it holds completely: where there is more than `limit`, it ends with the last tick given (without `from`: begins with the first), so that a client reads on from there. An answer looks at no more than 366 days that may hold ticks.',
        tags: ['realtime'],
        querystring: TicksQuery,
        response: { 200: TicksResponse },
      },
    },
    async (request, reply) => {
      const { symbol, from = null, to, limit = limitDefault } = request.query;
      requireWindow(from, to);
      const nowMs = clock.nowMs();
      const window = { symbol, from, to: Math.min(nowMs, to ?? nowMs), limit: Math.min(limit, ticksLimitMax) };
      const found = await readTicks(window).catch(throwUnavailable);
      if (found === null) throw createUnknownSymbolError();
      reply.type('application/json; charset=utf-8');
      // Bytes are sent as they are: an object for each tick would take longer than finding them.
      return reply.send(serializeResponse(symbol, found, textOf, nowMs) as unknown as TicksResponse);
    },
  );
}

function serializeResponse(
  symbol: string,
  { slices, count, from, to, gaps }: TickRangeResult,
  textOf: ReturnType<typeof createTickSerializer>,
  nowMs: number,
): Buffer {
  const holes = gaps.length === 0 ? '' : `,"gaps":${JSON.stringify(gaps satisfies readonly DeclaredGap[])}`;
  const pieces: Uint8Array[] = [Buffer.from(`{"symbol":${JSON.stringify(symbol)},"ticks":[`)];
  for (const [i, slice] of slices.entries()) {
    if (i > 0) pieces.push(comma);
    pieces.push(textOf(slice));
  }
  pieces.push(Buffer.from(`],"count":${count},"from":${from},"to":${to},"generated_at":${nowMs}${holes}}`));
  return Buffer.concat(pieces);
}

function throwUnavailable(error: unknown): never {
  if (error instanceof OddslakeError && error.exitCode === exitCodes.busy)
    throw new ProblemError(503, 'The archive is being written too fast to be read; try again.', {
      headers: { 'retry-after': '1' },
    });
  throw error;
}
