import { lookup } from 'node:dns/promises';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { SharedRateStore } from '../archive/journal/rate-limit-store.ts';
import { exitCodes, UpstreamError, type UpstreamFailure } from '../base/errors.ts';
import { formatDuration } from '../base/format-quantity.ts';
import type { Clock } from '../base/ports.ts';
import type { OpenTransport } from '../client/transport.ts';
import type { Context } from '../context/context.ts';
import { openConfiguredUpstream } from '../context/open-configured.ts';
import { requireUpstream } from '../settings/settings.ts';
import type { Environment } from '../settings/source.ts';
import { createFindings, type Finding } from './finding.ts';

export interface UpstreamFacts {
  readonly baseUrl: string | null;
  readonly hasKey: boolean;
  /** Variables that name a proxy, which requests do not go through. */
  readonly proxies: readonly string[];
  /** Null where it was not tried. */
  readonly connection: ConnectionFacts | ConnectionFailure | null;
  /** What came of the one request; null where none was made. */
  readonly response: ProbeResponse | null;
  readonly rate: RateFacts;
}

export interface ConnectionFacts {
  readonly address: string;
  /** For the name, the connection and its TLS. */
  readonly ms: number;
  /** Null without TLS. `distrusted`: why the certificate is not trusted. */
  readonly tls: {
    readonly protocol: string;
    readonly daysLeft: number | null;
    readonly distrusted: string | null;
  } | null;
}

export interface ConnectionFailure {
  /** A clause, e.g. `connection refused`. */
  readonly failure: string;
}

export interface ProbeResponse {
  readonly status: number | null;
  /** Why it is of no use; null where it is. */
  readonly failure: { readonly kind: UpstreamFailure; readonly reason: string } | null;
  readonly requestedAt: number;
  readonly receivedAt: number;
  /** By the answer's head, epoch ms, in whole seconds; null where it does not say. */
  readonly servedAt: number | null;
  /** Requests a second that its headers allow; null where they say nothing. */
  readonly statedPerSecond: number | null;
}

export interface RateFacts {
  readonly configuredPerSecond: number;
  /** What refusals have taught the processes of this archive; null where there were none. */
  readonly adaptedPerSecond: number | null;
  /** Of the last run that asked. */
  readonly lastRun: { readonly throttledMs: number; readonly ms: number } | null;
}

export function judgeUpstream(facts: UpstreamFacts, skewMsMax: number): Finding[] {
  const { response } = facts;
  return [
    ...judgeAddress(facts),
    ...judgeReachability(facts),
    ...(response === null ? [] : [judgeResponse(facts, response), ...judgeClock(response, skewMsMax)]),
    judgeRate(facts),
  ];
}

function judgeAddress({ baseUrl, hasKey }: UpstreamFacts): Finding[] {
  if (baseUrl === null)
    return [
      createFindings('upstream', 'address').problem(
        exitCodes.usage,
        'nothing says where the market data service is',
        'Set ODDSLAKE_BASE_URL, e.g. https://example.org, or name a config with --config.',
      ),
    ];
  if (hasKey) return [];
  return [
    createFindings('upstream', 'key').problem(
      exitCodes.usage,
      `there is none for ${baseUrl}`,
      'Set ODDSLAKE_API_KEY, or ODDSLAKE_API_KEY_FILE to a file that holds it.',
    ),
  ];
}

const certificateDaysMin = 14;

function judgeReachability({ baseUrl, connection, proxies }: UpstreamFacts): Finding[] {
  const { ok, warning, problem } = createFindings('upstream', 'reachable');
  if (connection === null) return [];
  const around = proxies.length === 0 ? '' : ` Requests go straight there: ${proxies.join(', ')} is not followed.`;
  const unreachable = (why: string, advice: string) => [
    problem(exitCodes.unreachable, `${baseUrl}: ${why}`, `${advice}${around}`),
  ];
  if ('failure' in connection) return unreachable(connection.failure, 'Check ODDSLAKE_BASE_URL and the network.');
  const { address, ms, tls } = connection;
  const found = `${baseUrl} (${address}) in ${formatDuration(ms)}${tls === null ? '' : `, ${tls.protocol}`}`;
  if (tls === null) return [ok(found)];
  if (tls.distrusted !== null)
    return unreachable(
      `its certificate is not trusted (${tls.distrusted})`,
      'Check ODDSLAKE_BASE_URL; a certificate authority of your own goes into NODE_EXTRA_CA_CERTS.',
    );
  if (tls.daysLeft === null || tls.daysLeft >= certificateDaysMin) return [ok(found)];
  return [
    warning(
      `${found}, with a certificate that ends in ${tls.daysLeft} days`,
      'Tell those who run the service: without a new one no run will reach it.',
    ),
  ];
}

/** Whether the one request was answered as it should be: it is the key that most often is not right. */
function judgeResponse({ baseUrl }: UpstreamFacts, { status, failure }: ProbeResponse): Finding {
  const { ok, warning, problem } = createFindings('upstream', 'key');
  if (failure === null) return ok(`accepted (a list of one market: ${status})`);
  const { kind, reason } = failure;
  if (kind === 'credential')
    return problem(
      exitCodes.credential,
      `the service refused it (${reason})`,
      'Check ODDSLAKE_API_KEY or ODDSLAKE_API_KEY_FILE; ask those who run the service whether it is still good.',
    );
  if (kind === 'unreachable') return problem(exitCodes.unreachable, `not tried: ${reason}`, 'Check the network.');
  if (status === 429)
    return warning(
      `not told: the service is asked too often (${reason})`,
      'Something else uses this key, or upstream.requests_per_second is too high.',
    );
  return problem(
    exitCodes.incomplete,
    `not told: ${reason}`,
    kind === 'refused'
      ? `See that ${baseUrl} is a market data service, and which part of its path belongs to the address.`
      : 'The service has a fault now: try again later.',
  );
}

/** Below this a whole second, and the way there and back, may be all of it. */
const skewMsWarnMin = 5_000;

function judgeClock({ requestedAt, receivedAt, servedAt }: ProbeResponse, skewMsMax: number): Finding[] {
  if (servedAt === null) return [];
  const { ok, warning, problem } = createFindings('machine', 'clock');
  // A Date header is cut to whole seconds.
  const aheadMs = (requestedAt + receivedAt) / 2 - (servedAt + 500);
  const skewMs = Math.abs(aheadMs);
  if (skewMs < Math.min(skewMsWarnMin, skewMsMax)) return [ok("as the service's")];
  const found = `${formatDuration(skewMs)} ${aheadMs > 0 ? 'ahead of' : 'behind'} the service's`;
  const advice = 'Set the clock, and keep it by NTP (systemd-timesyncd, chrony).';
  if (skewMs <= skewMsMax) return [warning(found, advice)];
  return [
    problem(
      exitCodes.unexpected,
      `${found}, more than poll.future_skew_seconds (${skewMsMax / 1000} s)`,
      `${advice} Ticks that seem to lie in the future are set aside.`,
    ),
  ];
}

/** Share of a run that it may stand still because the service asked for it. */
const throttledShareMax = 0.1;

function judgeRate({ rate, response }: UpstreamFacts): Finding {
  const { ok, warning } = createFindings('upstream', 'rate');
  const { configuredPerSecond: configured, adaptedPerSecond: learned, lastRun } = rate;
  const found = `${formatPerSecond(configured)} configured`;
  const lower = (allowed: number): string =>
    `Set upstream.requests_per_second to ${formatRate(allowed)}, or ask for a higher rate under this key.`;
  const stated = response?.statedPerSecond ?? null;
  if (stated !== null && stated < configured)
    return warning(`${found}, and the service states ${formatPerSecond(stated)}`, lower(stated));
  if (learned !== null && learned < configured)
    return warning(`${found}, and ${formatPerSecond(learned)} is what the service lets through`, lower(learned));
  if (lastRun !== null && lastRun.throttledMs > throttledShareMax * lastRun.ms)
    return warning(
      `${found}; the service held the last run back for ${formatDuration(lastRun.throttledMs)} of ${formatDuration(lastRun.ms)}`,
      'Lower upstream.requests_per_second, or see who else uses this key.',
    );
  return ok(stated === null ? found : `${found}; the service allows ${formatPerSecond(stated)}`);
}

const formatRate = (rate: number): string => String(Math.floor(rate * 1000) / 1000);
const formatPerSecond = (rate: number): string => `${formatRate(rate)} a second`;

export interface UpstreamProbe {
  /** Whether the network may be used. */
  readonly isOnline: boolean;
  readonly env: Environment;
  /** The archive's private folder; null where there is no archive. */
  readonly privateFolder: string | null;
  /** The summary of the last run that asked, as JSON; null where there is none. */
  readonly lastRunSummary: string | null;
}

/** Seconds that the one request may take: whoever looks does not wait for a whole night's patience. */
const deadlineSecondsMax = 20;

export async function probeUpstream(context: Context, probe: UpstreamProbe): Promise<UpstreamFacts> {
  const { baseUrl, apiKey, requestsPerSecond } = context.settings.upstream;
  const connection = baseUrl === null || !probe.isOnline ? null : await probeConnection(baseUrl, context.clock);
  const mayAsk = connection !== null && !('failure' in connection) && (connection.tls?.distrusted ?? null) === null;
  const pace =
    probe.privateFolder === null
      ? null
      : (await import('../archive/journal/rate-limit-store.ts')).joinSharedRateStore(probe.privateFolder);
  try {
    return {
      baseUrl,
      hasKey: apiKey !== null,
      proxies: listProxyVariables(probe.env),
      connection,
      response: mayAsk && apiKey !== null ? await sendProbeRequest(context, pace) : null,
      rate: gatherRateFacts(requestsPerSecond, pace, probe.lastRunSummary),
    };
  } finally {
    pace?.close();
  }
}

/** The list of one market: what costs a service least. One try, in its turn of the pace that all processes share. */
async function sendProbeRequest(context: Context, pace: SharedRateStore | null): Promise<ProbeResponse> {
  const { settings, clock } = context;
  const [{ openTransport }, { parseServedAt }, { parseRateHeaders }, { createLocalRateStore }] = await Promise.all([
    import('../client/transport.ts'),
    import('../client/classify-error.ts'),
    import('../client/rate-headers.ts'),
    import('../client/local-rate-store.ts'),
  ]);
  const seen: { askedAt: number; receivedAt: number; head: Parameters<typeof parseServedAt>[0] | null } = {
    askedAt: clock.nowMs(),
    receivedAt: clock.nowMs(),
    head: null,
  };
  const watched: OpenTransport = (options, own) => {
    const wire = (context.openWire ?? openTransport)(options, own);
    return {
      ...wire,
      get(path, signal, onHead) {
        seen.askedAt = clock.nowMs();
        return wire.get(path, signal, (head) => {
          Object.assign(seen, { head, receivedAt: clock.nowMs() });
          onHead(head);
        });
      },
    };
  };
  const once = {
    ...settings.upstream,
    retryAttemptsMax: 1,
    requestDeadlineSeconds: Math.min(settings.upstream.requestDeadlineSeconds, deadlineSecondsMax),
    // A pause that somebody else was asked for is not sat out.
    retryAfterSecondsMax: Math.min(settings.upstream.retryAfterSecondsMax, deadlineSecondsMax),
  };
  // What it says is told in the findings, once.
  const silent = { debug() {}, info() {}, warn() {}, error() {} };
  const asking = { ...context, settings: { ...settings, upstream: once }, openWire: watched, log: silent };
  const client = await openConfiguredUpstream(asking, pace ?? createLocalRateStore(), requireUpstream(settings));
  let failure: ProbeResponse['failure'] = null;
  try {
    await client.markets({ view: settings.source.views[0]!, limit: 1 }, context.signal);
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    failure = { kind: error.failure, reason: error.reason };
  } finally {
    await client.close();
  }
  const { askedAt, receivedAt, head } = seen;
  return {
    status: head?.status ?? null,
    failure,
    requestedAt: askedAt,
    receivedAt,
    servedAt: head === null ? null : parseServedAt(head),
    statedPerSecond: head === null ? null : (parseRateHeaders(head, receivedAt).ratePerSecond ?? null),
  };
}

const listProxyVariables = (env: Environment): string[] =>
  ['HTTPS_PROXY', 'HTTP_PROXY', 'ALL_PROXY'].filter((name) => env[name] || env[name.toLowerCase()]);

function gatherRateFacts(
  configuredPerSecond: number,
  pace: SharedRateStore | null,
  lastAsking: string | null,
): RateFacts {
  const learned = pace === null ? null : pace.runExclusive(() => pace.read().learned);
  const last = lastAsking === null ? null : (JSON.parse(lastAsking) as Partial<LastRunTimes>);
  const { throttled_ms: throttledMs, started_at: from, finished_at: to } = last ?? {};
  const known = typeof throttledMs === 'number' && typeof from === 'number' && typeof to === 'number';
  return {
    configuredPerSecond,
    adaptedPerSecond: learned === null ? null : ((JSON.parse(learned) as { rate?: number }).rate ?? null),
    lastRun: known ? { throttledMs, ms: to - from } : null,
  };
}

interface LastRunTimes {
  readonly throttled_ms: number;
  readonly started_at: number;
  readonly finished_at: number;
}

const connectMsMax = 10_000;

const connectErrorReasons: Readonly<Record<string, string>> = {
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name not found for now',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ETIMEDOUT: 'no connection in time',
};

/** Finds the host of a URL and connects to it, in TLS where it asks for that; nothing is sent. */
export async function probeConnection(url: string, clock: Clock): Promise<ConnectionFacts | ConnectionFailure> {
  const { protocol, hostname, port } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const startedAt = clock.monotonicMs();
  try {
    const { address } = await lookup(host);
    const at = { host: address, port: Number(port) || (protocol === 'https:' ? 443 : 80) };
    const isTls = protocol === 'https:';
    // A certificate that is not trusted is to be told as such, and nothing is sent over what it is of.
    const servername = host === address ? {} : { servername: host };
    const socket = await waitForConnection(
      isTls ? connectTls({ ...at, ...servername, rejectUnauthorized: false }) : connect(at),
      isTls,
    );
    const ms = clock.monotonicMs() - startedAt;
    const tls = isTls ? readCertificate(socket as TLSSocket, clock.nowMs()) : null;
    socket.destroy();
    return { address, ms, tls };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return { failure: connectErrorReasons[code ?? ''] ?? `no connection (${code ?? message})` };
  }
}

function waitForConnection(socket: Socket, isTls: boolean): Promise<Socket> {
  return new Promise((resolve, reject) => {
    socket.setTimeout(connectMsMax, () => socket.destroy(Object.assign(new Error('late'), { code: 'ETIMEDOUT' })));
    socket.once('error', reject);
    socket.once(isTls ? 'secureConnect' : 'connect', () => resolve(socket));
  });
}

function readCertificate(socket: TLSSocket, nowMs: number): ConnectionFacts['tls'] {
  const validTo = Date.parse(socket.getPeerCertificate().valid_to);
  const { authorizationError: error } = socket;
  return {
    protocol: socket.getProtocol() ?? 'TLS',
    daysLeft: Number.isNaN(validTo) ? null : Math.floor((validTo - nowMs) / 86_400_000),
    // The types say an error; it is the name of one.
    distrusted: socket.authorized ? null : String((error as { code?: string } | null)?.code ?? error),
  };
}
