import { get, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

// A client of server-sent events, written from the standard and not from the code that sends them:
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

interface StreamEvent {
  readonly type: string;
  readonly id: string;
  readonly data: { readonly symbol: string; readonly t: number; readonly p: number } & Record<string, unknown>;
}

export interface EventStream {
  readonly status: number;
  readonly response: IncomingMessage;
  /** All events so far. */
  readonly events: readonly StreamEvent[];
  /** The last event ID, as a browser keeps it: an ID without data counts, too. */
  readonly lastEventId: string;
  /** Comment lines so far. */
  readonly comments: readonly string[];
  /** The body of a response that is no stream. */
  readonly text: string;
  readonly isEnded: boolean;
  /** Resolves when `holds`; rejects after 20 s. */
  until(holds: (stream: EventStream) => boolean): Promise<void>;
  /** Stops reading, so that the buffers on the way fill up. */
  pause(): void;
  resume(): void;
  close(): void;
}

/** @param lastEventId empty for none */
export async function openEvents(url: string, key: string, lastEventId = ''): Promise<EventStream> {
  const headers = { authorization: `Bearer ${key}`, ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }) };
  const request = get(url, { headers, agent: false });
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve).once('error', reject);
  });
  const events: StreamEvent[] = [];
  const comments: string[] = [];
  let id = lastEventId;
  let [line, type, data] = ['', '', ''];
  let text = '';
  let isEnded = false;
  const takeLine = (): void => {
    if (line === '') {
      if (data !== '') events.push({ type: type || 'message', id, data: JSON.parse(data.slice(0, -1)) });
      [type, data] = ['', ''];
      return;
    }
    const at = line.indexOf(':');
    if (at === 0) comments.push(line.slice(1).trim());
    const [field, value] = at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, '')];
    if (field === 'id') id = value;
    else if (field === 'event') type = value;
    else if (field === 'data') data += `${value}\n`;
  };
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => {
    if (response.statusCode !== 200) text += chunk;
    for (const part of chunk.split(/(\n)/)) {
      if (part !== '\n') line += part;
      else {
        takeLine();
        line = '';
      }
    }
  });
  response.on('close', () => {
    isEnded = true;
  });
  response.on('error', () => {});
  const stream: EventStream = {
    status: response.statusCode!,
    response,
    events,
    comments,
    get lastEventId() {
      return id;
    },
    get text() {
      return text;
    },
    get isEnded() {
      return isEnded;
    },
    async until(holds) {
      for (let waited = 0; !holds(stream); waited += 5) {
        if (waited > 20_000) throw new Error(`${events.length} events, ${isEnded ? 'ended' : 'open'}`);
        await sleep(5);
      }
    },
    pause: () => void response.pause(),
    resume: () => void response.resume(),
    close: () => void request.destroy(),
  };
  return stream;
}
