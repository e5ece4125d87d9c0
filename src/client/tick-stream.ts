import { exitCodes, OddslakeError, UsageError } from '../base/errors.ts';
import type { Clock } from '../base/ports.ts';
import { paths } from '../contract/paths.ts';
import { eventStreamType } from '../contract/stream.ts';

// Follows the tick stream of an oddslake service: server-sent events that a client resumes by the ID of the last one.
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

interface StreamEvent {
  /** `ready` is the first one; what was journaled before it is in `/api/v1/ticks`. */
  readonly type: string;
  /** As sent, JSON. */
  readonly data: string;
}

/** A new tick, or the new price of a known one. */
export interface StreamedTick {
  readonly symbol: string;
  /** Epoch ms. */
  readonly t: number;
  readonly p: number;
  readonly isRevision: boolean;
}

interface TickStreamOptions {
  /** Address of the service, without a trailing slash. */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly symbols: readonly string[];
  readonly clock: Clock;
  /** Ends the stream. */
  readonly signal: AbortSignal;
  /**
   * Called when the stream has begun, and again if it could not be resumed, before any later tick: ticks up to now are to be
   * read from `/api/v1/ticks`.
   */
  onStart(): AsyncIterable<StreamedTick>;
  /** Called with a reason when the connection is lost. */
  onLost(reason: string): void;
}

/** Waits between two attempts, in ms: doubled up to the maximum. */
const retryMsMin = 1000;
const retryMsMax = 30_000;
/** A heartbeat comes every 15 s. A connection without anything for this long is dead, in ms. */
const silentMsMax = 45_000;

/**
 * Yields ticks as they arrive, until the signal aborts. Reconnects whenever the connection is lost, without loss or repetition
 * as long as the service keeps what followed.
 * @throws UsageError for an unknown symbol, OddslakeError if the key is refused
 */
export async function* followTickStream(options: TickStreamOptions): AsyncGenerator<StreamedTick> {
  const { clock, signal, onLost, onStart } = options;
  let lastId: string | null = null;
  let retryMs = retryMsMin;
  while (!signal.aborted) {
    let reason: string;
    try {
      const response = await connect(options, lastId);
      if (response === null) {
        lastId = null;
        continue;
      }
      for await (const { id, event } of response) {
        const isNew = lastId === null && event?.type === 'ready';
        lastId = id ?? lastId;
        retryMs = retryMsMin;
        if (isNew) yield* onStart();
        const tick = event === null ? null : toTick(event);
        if (tick !== null) yield tick;
      }
      reason = 'the service ended the stream';
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof OddslakeError) throw error;
      const { cause, message } = error as Error;
      reason = (cause as NodeJS.ErrnoException | undefined)?.code ?? message;
    }
    onLost(reason);
    await clock.sleep(retryMs, signal).catch(() => {});
    retryMs = Math.min(retryMsMax, 2 * retryMs);
  }
}

function toTick({ type, data }: StreamEvent): StreamedTick | null {
  if (type !== 'tick' && type !== 'revision') return null;
  const { symbol, t, p } = JSON.parse(data) as { symbol: string; t: number; p: number };
  return { symbol, t, p, isRevision: type === 'revision' };
}

/** Resolves to the events of a connection; null if the service no longer keeps what followed the last event. */
async function connect(
  { baseUrl, apiKey, symbols, signal }: TickStreamOptions,
  lastId: string | null,
): Promise<AsyncIterable<ParsedEvent> | null> {
  const query = symbols.map((symbol) => `symbol=${encodeURIComponent(symbol)}`).join('&');
  const stop = new AbortController();
  const silence = setTimeout(() => stop.abort(new Error('nothing was received for 45 s')), silentMsMax);
  const response = await fetch(`${baseUrl}${paths.ticksStream}?${query}`, {
    redirect: 'error',
    signal: AbortSignal.any([signal, stop.signal]),
    headers: {
      accept: eventStreamType,
      authorization: `Bearer ${apiKey}`,
      ...(lastId === null ? {} : { 'last-event-id': lastId }),
    },
  }).catch((error: unknown) => {
    clearTimeout(silence);
    throw error;
  });
  if (response.ok && response.body !== null) return parseEvents(response.body, () => silence.refresh(), silence);
  clearTimeout(silence);
  const text = (await response.text()).slice(0, 1000);
  const detail = /"detail":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? '';
  const reason = `${baseUrl} answered ${response.status}${detail === '' ? '' : `: ${detail}`}`;
  if (response.status === 410) return null;
  if (response.status === 401 || response.status === 403) throw new OddslakeError(exitCodes.credential, `${reason}.`);
  if (response.status === 404 || response.status === 400 || response.status === 422)
    throw new UsageError(`${reason} It must be an oddslake service that knows each of these symbols.`);
  throw new Error(reason);
}

interface ParsedEvent {
  readonly id: string | null;
  /** Null for a heartbeat. */
  readonly event: StreamEvent | null;
}

/** Longest event that is accepted, in characters. */
const eventLengthMax = 1024 * 1024;

async function* parseEvents(
  body: ReadableStream<Uint8Array>,
  onBytes: () => void,
  timer: NodeJS.Timeout,
): AsyncGenerator<ParsedEvent> {
  let rest = '';
  try {
    for await (const piece of body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>)) {
      onBytes();
      const blocks = (rest + piece).split(/\r?\n\r?\n/);
      rest = blocks.pop()!;
      if (rest.length > eventLengthMax) throw new Error('the service sends no events');
      for (const block of blocks) yield parseEvent(block);
    }
  } finally {
    clearTimeout(timer);
  }
}

function parseEvent(block: string): ParsedEvent {
  let [id, type] = [null as string | null, 'message'];
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const [, name, value = ''] = /^([^:]+)(?:: ?(.*))?$/.exec(line) ?? [];
    if (name === 'id') id = value;
    else if (name === 'event') type = value;
    else if (name === 'data') data.push(value);
  }
  return { id, event: data.length === 0 ? null : { type, data: data.join('\n') } };
}
