import type { FastifyReply } from 'fastify';

/** Header with the time of the data of a response: how old it is, whenever the response was generated. */
export const dataTimeHeader = 'Oddslake-Data-Time';

/** Sets the header, as epoch milliseconds. No header if the archive has no data for the request. */
export function setDataTime(reply: Pick<FastifyReply, 'header'>, dataTime: number | null): void {
  if (dataTime !== null) reply.header(dataTimeHeader, String(dataTime));
}
