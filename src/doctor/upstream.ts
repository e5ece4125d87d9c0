import { lookup } from 'node:dns/promises';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { SharedRateStore } from '../archive/journal/rate-limit-store.ts';
import { exitCodes, UpstreamError, type UpstreamFailure } from '../base/errors.ts';
import { formatDuration } from '../base/format-quantity.ts';
import type { Clock } from '../base/ports.ts';
import { createLocalRateStore } from '../base/rate-state.ts';
import { dayMs } from '../base/window.ts';
import { parseInferredRate } from '../client/adaptive-rate.ts';
import type { OpenTransport } from '../client/transport.ts';
import type { Context } from '../context/context.ts';
import { openConfiguredUpstream } from '../context/open-configured.ts';
import { requireUpstream } from '../settings/settings.ts';
import type { Environment } from '../settings/source.ts';
import { createFindings, type Finding } from './finding.ts';

export interface UpstreamFacts {
  readonly baseUrl: string | null;
  readonly hasKey: boolean;
  /** Environment variables of a proxy, which oddslake does not use. */
  readonly proxies: readonly string[];
  /** Null if it was not tried. */
  readonly connection: ConnectionFacts | ConnectionFailure | null;
  /** Result of the test request; null if none was sent. */
  readonly response: ProbeResponse | null;
  readonly rate: RateFacts;
}

interface ConnectionFacts {
  readonly address: string;
  /** Time for DNS, TCP and TLS. */
  readonly ms: number;
  /** Null without TLS. `distrusted`: why the certificate is not trusted; null if it is. */
  readonly tls: {
    readonly protocol: string;
    readonly daysLeft: number | null;
    readonly distrusted: string | null;
  } | null;
}

interface ConnectionFailure {
  /** A clause, e.g. `connection refused`. */
  readonly failure: string;
}

interface ProbeResponse {
  readonly status: number | null;
  /** Why the request failed; null if it succeeded. */
  readonly failure: { readonly kind: UpstreamFailure; readonly reason: string } | null;
  readonly requestedAt: number;
  readonly receivedAt: number;
  /** Date header, epoch ms, in whole seconds; null if there is none. */
  readonly servedAt: number | null;
  /** Requests a second according to the response headers; null if they do not state it. */
  readonly statedPerSecond: number | null;
}

interface RateFacts {
  readonly configuredPerSecond: number;
  /** Rate inferred from rejected requests by the processes of this archive; null if there were none. */
  readonly adaptedPerSecond: number | null;
  /** The last run that sent requests. */
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
        'the address of the market data service is not set',
        'Set ODDSLAKE_BASE_URL, e.g. https://example.org, or use a config file with --config.',
      ),
    ];
  if (hasKey) return [];
  return [
    createFindings('upstream', 'key').problem(
      exitCodes.usage,
      `no API key for ${baseUrl} is set`,
      'Set ODDSLAKE_API_KEY, or ODDSLAKE_API_KEY_FILE to a file with the key.',
    ),
  ];
}

const certificateDaysMin = 14;

function judgeReachability({ baseUrl, connection, proxies }: UpstreamFacts): Finding[] {
  const { ok, warning, problem } = createFindings('upstream', 'reachable');
  if (connection === null) return [];
  const proxyNote = proxies.length === 0 ? '' : ` oddslake connects directly: ${proxies.join(', ')} is ignored.`;
  const unreachable = (reason: string, advice: string) => [
    problem(exitCodes.unreachable, `${baseUrl}: ${reason}`, `${advice}${proxyNote}`),
  ];
  if ('failure' in connection) return unreachable(connection.failure, 'Check ODDSLAKE_BASE_URL and the network.');
  const { address, ms, tls } = connection;
  const found = `${baseUrl} (${address}) in ${formatDuration(ms)}${tls === null ? '' : `, ${tls.protocol}`}`;
  if (tls === null) return [ok(found)];
  if (tls.distrusted !== null)
    return unreachable(
      `its certificate is not trusted (${tls.distrusted})`,
      'Check ODDSLAKE_BASE_URL. To trust a private certificate authority, set NODE_EXTRA_CA_CERTS.',
    );
  if (tls.daysLeft === null || tls.daysLeft >= certificateDaysMin) return [ok(found)];
  return [
    warning(
      `${found}; its certificate expires in ${tls.daysLeft} days`,
      'Ask the operator of the service to renew it. Otherwise runs will fail.',
    ),
  ];
}

/** Judges the test request. Most failures are caused by the API key. */
function judgeResponse({ baseUrl }: UpstreamFacts, { status, failure }: ProbeResponse): Finding {
  const { ok, warning, problem } = createFindings('upstream', 'key');
  if (failure === null) return ok(`accepted (list of one market: status ${status})`);
  const { kind, reason } = failure;
  if (kind === 'credential')
    return problem(
      exitCodes.credential,
      `the service rejected it (${reason})`,
      'Check ODDSLAKE_API_KEY or ODDSLAKE_API_KEY_FILE. Ask the operator of the service whether the key is still valid.',
    );
  if (kind === 'unreachable') return problem(exitCodes.unreachable, `not checked: ${reason}`, 'Check the network.');
  if (status === 429)
    return warning(
      `not checked: rate limit exceeded (${reason})`,
      'Another program uses this key, or upstream.requests_per_second is too high.',
    );
  return problem(
    exitCodes.incomplete,
    `not checked: ${reason}`,
    kind === 'refused'
      ? `Check that ${baseUrl} is the address of a market data service, and that its path is right.`
      : 'The service has an error. Try again later.',
  );
}

/** Smaller differences may be due to rounding to seconds and the round-trip time. */
const skewMsWarnMin = 5_000;

function judgeClock({ requestedAt, receivedAt, servedAt }: ProbeResponse, skewMsMax: number): Finding[] {
  if (servedAt === null) return [];
  const { ok, warning, problem } = createFindings('machine', 'clock');
  // A Date header is truncated to whole seconds, so add half a second.
  const aheadMs = (requestedAt + receivedAt) / 2 - (servedAt + 500);
  const skewMs = Math.abs(aheadMs);
  if (skewMs < Math.min(skewMsWarnMin, skewMsMax)) return [ok('same time as the service')];
  const found = `${formatDuration(skewMs)} ${aheadMs > 0 ? 'ahead of' : 'behind'} the service`;
  const advice = 'Set the clock, and synchronize it with NTP (systemd-timesyncd, chrony).';
  if (skewMs <= skewMsMax) return [warning(found, advice)];
  return [
    problem(
      exitCodes.unexpected,
      `${found}, more than poll.future_skew_seconds (${skewMsMax / 1000} s)`,
      `${advice} Ticks with a time in the future are quarantined.`,
    ),
  ];
}

/** Share of a run that may be spent waiting for Retry-After without a warning. */
const throttledShareMax = 0.1;

function judgeRate({ rate, response }: UpstreamFacts): Finding {
  const { ok, warning } = createFindings('upstream', 'rate');
  const { configuredPerSecond: configured, adaptedPerSecond: inferred, lastRun } = rate;
  const found = `${formatPerSecond(configured)} configured`;
  const suggestRate = (allowed: number): string =>
    `Set upstream.requests_per_second to ${formatRate(allowed)}, or request a higher rate limit for this key.`;
  const stated = response?.statedPerSecond ?? null;
  if (stated !== null && stated < configured)
    return warning(`${found}; the service allows ${formatPerSecond(stated)}`, suggestRate(stated));
  if (inferred !== null && inferred < configured)
    return warning(`${found}; the service accepts about ${formatPerSecond(inferred)}`, suggestRate(inferred));
  if (lastRun !== null && lastRun.throttledMs > throttledShareMax * lastRun.ms)
    return warning(
      `${found}; the last run was throttled for ${formatDuration(lastRun.throttledMs)} of ${formatDuration(lastRun.ms)}`,
      'Lower upstream.requests_per_second, or find out what else uses this key.',
    );
  return ok(stated === null ? found : `${found}; the service allows ${formatPerSecond(stated)}`);
}

const formatRate = (rate: number): string => String(Math.floor(rate * 1000) / 1000);
const formatPerSecond = (rate: number): string => `${formatRate(rate)} a second`;

interface UpstreamProbe {
  /** Whether the network may be used. */
  readonly isOnline: boolean;
  readonly env: Environment;
  /** The private folder of the archive; null if there is no archive. */
  readonly privateFolder: string | null;
  /** Summary of the last run that sent requests, as JSON; null if there is none. */
  readonly lastRunSummary: string | null;
}

/** Maximum seconds for the test request; the deadline of a nightly run is too long for a user who waits. */
const deadlineSecondsMax = 20;

export async function probeUpstream(context: Context, probe: UpstreamProbe): Promise<UpstreamFacts> {
  const { baseUrl, apiKey, requestsPerSecond } = context.settings.upstream;
  const connection = baseUrl === null || !probe.isOnline ? null : await probeConnection(baseUrl, context.clock);
  const canRequest = connection !== null && !('failure' in connection) && (connection.tls?.distrusted ?? null) === null;
  const rateStore =
    probe.privateFolder === null
      ? null
      : (await import('../archive/journal/rate-limit-store.ts')).joinSharedRateStore(probe.privateFolder);
  try {
    return {
      baseUrl,
      hasKey: apiKey !== null,
      proxies: listProxyVariables(probe.env),
      connection,
      response: canRequest && apiKey !== null ? await sendProbeRequest(context, rateStore) : null,
      rate: gatherRateFacts(requestsPerSecond, rateStore, probe.lastRunSummary),
    };
  } finally {
    rateStore?.close();
  }
}

/** Requests a list of one market, which is cheap for the service. One attempt, within the shared rate limit. */
async function sendProbeRequest(context: Context, rateStore: SharedRateStore | null): Promise<ProbeResponse> {
  const { settings, clock } = context;
  const [{ openTransport }, { parseServedAt }, { parseRateHeaders }] = await Promise.all([
    import('../client/transport.ts'),
    import('../client/classify-error.ts'),
    import('../client/rate-headers.ts'),
  ]);
  const observed: { askedAt: number; receivedAt: number; head: Parameters<typeof parseServedAt>[0] | null } = {
    askedAt: clock.nowMs(),
    receivedAt: clock.nowMs(),
    head: null,
  };
  const openObserved: OpenTransport = (options, own) => {
    const wire = (context.openWire ?? openTransport)(options, own);
    return {
      ...wire,
      get(path, signal, onHead) {
        observed.askedAt = clock.nowMs();
        return wire.get(path, signal, (head) => {
          Object.assign(observed, { head, receivedAt: clock.nowMs() });
          onHead(head);
        });
      },
    };
  };
  const upstream = {
    ...settings.upstream,
    retryAttemptsMax: 1,
    requestDeadlineSeconds: Math.min(settings.upstream.requestDeadlineSeconds, deadlineSecondsMax),
    // Do not wait for a long Retry-After of an earlier request.
    retryAfterSecondsMax: Math.min(settings.upstream.retryAfterSecondsMax, deadlineSecondsMax),
  };
  // The findings report the errors.
  const silent = { debug() {}, info() {}, warn() {}, error() {} };
  const probeContext = { ...context, settings: { ...settings, upstream }, openWire: openObserved, log: silent };
  const client = await openConfiguredUpstream(
    probeContext,
    rateStore ?? createLocalRateStore(),
    requireUpstream(settings),
  );
  let failure: ProbeResponse['failure'] = null;
  try {
    await client.markets({ view: settings.source.views[0]!, limit: 1 }, context.signal);
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    failure = { kind: error.failure, reason: error.reason };
  } finally {
    await client.close();
  }
  const { askedAt, receivedAt, head } = observed;
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
  rateStore: SharedRateStore | null,
  lastSummary: string | null,
): RateFacts {
  const inferred = rateStore === null ? null : rateStore.runExclusive(() => rateStore.read().inferred);
  const last = lastSummary === null ? null : (JSON.parse(lastSummary) as Partial<LastRunTimes>);
  const { throttled_ms: throttledMs, started_at: from, finished_at: to } = last ?? {};
  const isComplete = typeof throttledMs === 'number' && typeof from === 'number' && typeof to === 'number';
  return {
    configuredPerSecond,
    adaptedPerSecond: parseInferredRate(inferred)?.rate ?? null,
    lastRun: isComplete ? { throttledMs, ms: to - from } : null,
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
  EAI_AGAIN: 'temporary failure of the name resolution',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ETIMEDOUT: 'connection timed out',
};

/** Resolves the host of a URL and connects to it, with TLS for https. Sends no request. */
async function probeConnection(url: string, clock: Clock): Promise<ConnectionFacts | ConnectionFailure> {
  const { protocol, hostname, port } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const startedAt = clock.monotonicMs();
  try {
    const { address } = await lookup(host);
    const at = { host: address, port: Number(port) || (protocol === 'https:' ? 443 : 80) };
    const isTls = protocol === 'https:';
    // Accept an untrusted certificate, in order to report why. Nothing is sent over this connection.
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
    socket.setTimeout(connectMsMax, () => socket.destroy(Object.assign(new Error('timeout'), { code: 'ETIMEDOUT' })));
    socket.once('error', reject);
    socket.once(isTls ? 'secureConnect' : 'connect', () => resolve(socket));
  });
}

function readCertificate(socket: TLSSocket, nowMs: number): ConnectionFacts['tls'] {
  const validTo = Date.parse(socket.getPeerCertificate().valid_to);
  const { authorizationError: error } = socket;
  return {
    protocol: socket.getProtocol() ?? 'TLS',
    daysLeft: Number.isNaN(validTo) ? null : Math.floor((validTo - nowMs) / dayMs),
    // Typed as an Error, but a string at run time.
    distrusted: socket.authorized ? null : String((error as { code?: string } | null)?.code ?? error),
  };
}
