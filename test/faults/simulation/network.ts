import type { Window } from '../../../src/base/window.ts';
import { AttemptError, classifyConnectionError } from '../../../src/client/classify-error.ts';
import type { OpenTransport } from '../../../src/client/transport.ts';
import type { Draw } from '../seeds.ts';
import type { Service } from './service.ts';
import { hourMs } from './world.ts';

/** The state of the network for some time. Times are epoch ms of the collector's clock. */
interface NetworkState {
  /** Share of requests that fail. */
  readonly faults: number;
  /** Share of responses that take seconds. */
  readonly slow: number;
  /** Outage. */
  readonly outages: readonly Window[];
  /** Requests until the credential is refused once; null: never. */
  readonly refusedIn: number | null;
}

export const noFaults: NetworkState = { faults: 0, slow: 0, outages: [], refusedIn: null };

/** The network of a night that begins at `nowMs`. */
export function drawNetworkState(draw: Draw, nowMs: number): NetworkState {
  if (draw.chance(0.4)) return noFaults;
  const from = nowMs + draw.below(120_000);
  const outage = { from, to: from + Math.floor(draw() * draw.one([60_000, 5 * hourMs, 60 * hourMs])) };
  return {
    faults: draw.one([0.02, 0.1, 0.3, 0.6]),
    slow: draw.one([0, 0, 0.1]),
    outages: draw.chance(0.25) ? [outage] : [],
    refusedIn: draw.chance(0.05) ? 1 + draw.below(40) : null,
  };
}

export interface Network {
  weather: NetworkState;
  /** Number of requests to the tick route. */
  tickRequests: number;
  openWire(isDead: () => boolean): OpenTransport;
}

const faultKinds = ['429', '429', '500', '503', '502', 'reset', 'half', 'html', 'timeout', 'empty'] as const;
const codeError = (code: string): AttemptError => classifyConnectionError(Object.assign(new Error(code), { code }))!;

/** A connection to the service in this process. Calls `onExchange` with every request and its result. */
export function startNetwork(service: Service, draw: Draw, onExchange: (line: string) => void): Network {
  const network: Network = {
    weather: noFaults,
    tickRequests: 0,
    openWire: (isDead) => (options, clock) => ({
      async get(path, signal, onHead) {
        signal.throwIfAborted();
        if (isDead()) throw new Error('a dead process sends a request');
        if (path.includes('/ticks')) network.tickRequests++;
        const fate = drawFate(network, draw, clock.nowMs());
        const report = (outcome: string): void => onExchange(`${clock.nowMs()} ${path} ${outcome}`);
        const wayMs = 1 + draw.below(40);
        await clock.sleep(wayMs, signal);
        if (fate === 'unreachable') {
          report(fate);
          throw codeError('ECONNREFUSED');
        }
        if (fate === 'timeout') {
          await clock.sleep(options.requestDeadlineMs, signal);
          report(fate);
          throw new AttemptError('transient', `no complete response within ${options.requestDeadlineMs / 1000} s`);
        }
        const reply = service.answer(path, clock.nowMs());
        await clock.sleep(fate === 'slow' ? draw() * options.requestDeadlineMs * 0.9 : wayMs, signal);
        report(
          fate === 'fine' || fate === 'slow' ? `${fate} ${typeof reply === 'number' ? reply : reply.length}` : fate,
        );
        if (fate === 'reset') throw codeError('ECONNRESET');
        const [status, text] = createBody(fate, reply, draw);
        const retryAfter = (status === 429 || status === 503) && draw.chance(0.5) ? String(draw.below(20)) : undefined;
        const head = { status, headers: { 'content-type': 'application/json', 'retry-after': retryAfter } };
        onHead(head);
        const bytes = Buffer.from(text);
        return { ...head, bytes, bytesReceived: bytes.length };
      },
      async close() {},
    }),
  };
  return network;
}

type Fate = (typeof faultKinds)[number] | 'fine' | 'slow' | 'unreachable' | '401';

function drawFate(network: Network, draw: Draw, nowMs: number): Fate {
  const { weather } = network;
  if (weather.outages.some((w) => w.from <= nowMs && nowMs < w.to)) return 'unreachable';
  if (weather.refusedIn !== null) {
    network.weather = { ...weather, refusedIn: weather.refusedIn === 1 ? null : weather.refusedIn - 1 };
    if (weather.refusedIn === 1) return '401';
  }
  if (weather.faults > 0 && draw.chance(weather.faults)) return draw.one(faultKinds);
  return weather.slow > 0 && draw.chance(weather.slow) ? 'slow' : 'fine';
}

function createBody(fate: Fate, reply: string | number, draw: Draw): [status: number, text: string] {
  if (fate === 'half' && typeof reply === 'string') return [200, reply.slice(0, draw.below(reply.length))];
  if (fate === 'html') return [200, '<html><body>Just a moment</body></html>'];
  if (fate === 'empty') return [200, ''];
  if (/^\d/.test(fate)) return [Number(fate), '{"error":"not now"}'];
  return typeof reply === 'number' ? [reply, '{"error":"no such symbol"}'] : [200, reply];
}
