import type { TickLogRow, TickLogState } from '../../archive/journal/tick-log.ts';
import { ProblemError } from '../http/problem-details.ts';

// The events of a stream, in the format of server-sent events:
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

/** A place in the tick log: the next tick to send. */
export interface StreamPosition {
  /** Row of the log. */
  readonly seq: number;
  /** Index of the tick in this row. */
  readonly next: number;
}

/** Formats the ID of an event: the position after it. */
const formatEventId = (logId: string, { seq, next }: StreamPosition): string => `${logId}-${seq}-${next}`;

/** Parses the ID of an event; null if it is none. */
function parseEventId(text: string): (StreamPosition & { readonly logId: string }) | null {
  const [, logId, seq, next] = /^([0-9a-f]{1,32})-([1-9]\d{0,14})-(0|[1-9]\d{0,3})$/.exec(text) ?? [];
  return logId === undefined ? null : { logId, seq: Number(seq), next: Number(next) };
}

/**
 * The position at which a stream starts.
 * @throws ProblemError 400 if the last event ID is none, 410 if the log does not have everything after it
 */
export function findStartPosition(
  { symbols, lastEventId }: { readonly symbols: readonly string[]; readonly lastEventId: string | null },
  { id, floor, end }: TickLogState,
  getSince: (symbol: string) => number | undefined,
): StreamPosition {
  if (lastEventId === null) return { seq: end + 1, next: 0 };
  const position = parseEventId(lastEventId);
  if (position === null)
    throw new ProblemError(400, 'Last-Event-ID is not the ID of an event of this route.', {
      code: 'invalid_parameter',
      errors: [{ name: 'last-event-id', reason: 'is not the ID of an event' }],
    });
  const { logId, seq, next } = position;
  const isKept = logId === id && seq > floor && (seq <= end || (seq === end + 1 && next === 0));
  if (!isKept || symbols.some((symbol) => (getSince(symbol) ?? Number.POSITIVE_INFINITY) > seq))
    throw new ProblemError(
      410,
      'The ticks after this event are no longer kept in the order of their arrival, or some of these symbols were not streamed then. Connect without Last-Event-ID, and then read the ticks since the last one you have from /api/v1/ticks.',
    );
  return { seq, next };
}

/** How long a client should wait before it reconnects, in ms. */
const retryMs = 1000;

/** The first event. Its ID is the start of the stream: whatever is not in the archive at this time will be sent. */
export const formatReadyEvent = (
  logId: string,
  position: StreamPosition,
  facts: { readonly symbols: readonly string[]; readonly resumed: boolean; readonly generated_at: number },
): Buffer =>
  Buffer.from(
    `retry: ${retryMs}\nid: ${formatEventId(logId, position)}\nevent: ready\ndata: ${JSON.stringify(facts)}\n\n`,
  );

/**
 * A heartbeat. It has no data, so that clients dispatch no event; they remember its ID all the same, and so can resume
 * even if their symbols have had no tick for longer than the log is kept.
 */
export const formatHeartbeat = (logId: string, position: StreamPosition): Buffer =>
  Buffer.from(`: heartbeat\nid: ${formatEventId(logId, position)}\n\n`);

/**
 * Formats the ticks of a row, an event each: `tick` for new ticks, `revision` for known ticks with another price.
 * @param from index of the first tick
 */
export function formatRow(logId: string, { seq, symbol, isRevision, t, p }: TickLogRow, from: number): Buffer {
  const name = isRevision ? 'revision' : 'tick';
  const start = `{"symbol":${JSON.stringify(symbol)},"t":`;
  let text = '';
  for (let i = from; i < t.length; i++) {
    const position = i + 1 === t.length ? { seq: seq + 1, next: 0 } : { seq, next: i + 1 };
    text += `id: ${formatEventId(logId, position)}\nevent: ${name}\ndata: ${start}${t[i]},"p":${p[i]}}\n\n`;
  }
  return Buffer.from(text);
}
