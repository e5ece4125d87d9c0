import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { getSystemErrorMessage } from 'node:util';
import { inspectLiveSymbol } from '../archive/inspect.ts';
import { joinSharedRateStore, type SharedRateStore } from '../archive/journal/rate-limit-store.ts';
import { exitCodes, UpstreamError } from '../base/errors.ts';
import { formatCount, formatDuration } from '../base/format-quantity.ts';
import type { Clock } from '../base/ports.ts';
import { createLocalRateStore } from '../base/rate-state.ts';
import { dayMs, hourMs } from '../base/window.ts';
import { parseInferredRate } from '../client/adaptive-rate.ts';
import type { OpenTransport } from '../client/transport.ts';
import type { Context } from '../context/context.ts';
import { getConfiguredSymbols, openConfiguredUpstream } from '../context/open-configured.ts';
import { type Environment, nameVariables } from '../settings/layers.ts';
import type { UpstreamOrigins } from '../settings/settings.ts';
import { requireUpstream } from '../settings/settings.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

export interface UpstreamFacts {
  readonly baseUrl: string | null;
  readonly hasKey: boolean;
  /** The source, of an archive's several; absent or null: the only service. */
  readonly source?: string | null;
  /** Where the address and the key were set; absent or null: unknown. */
  readonly origins?: UpstreamOrigins;
  /** Environment variables of a proxy, which oddslake does not use. */
  readonly proxies: readonly string[];
  /** Null if no connection was attempted. */
  readonly connection: Connection | { readonly failure: string } | null;
  /** Result of the test request; null if none was sent. */
  readonly response: ProbeResponse | null;
  readonly rate: RateFacts;
}

interface Connection {
  readonly address: string;
  /** Time for DNS, TCP and TLS. */
  readonly ms: number;
  /** Days until the certificate expires; null without TLS. */
  readonly certificateDays: number | null;
  /** Why the certificate is not trusted; null if it is. */
  readonly distrusted: string | null;
}

interface ProbeResponse {
  readonly status: number | null;
  /** Null if the request succeeded. */
  readonly failure: Pick<UpstreamError, 'failure' | 'reason'> | null;
  /** Result of a request for the ticks of one live symbol; absent if none was sent. */
  readonly ticks?: { readonly symbol: string; readonly failure: ProbeResponse['failure'] };
  /** By how much the clock of this machine is ahead of the service; null if the response has no date. */
  readonly aheadMs: number | null;
  /** Requests per second according to the response headers; null if they state none. */
  readonly statedPerSecond: number | null;
}

interface RateFacts {
  readonly configuredPerSecond: number;
  /** Requests per second, as inferred by this archive's processes from rejected requests; null if no rate was inferred. */
  readonly adaptedPerSecond: number | null;
  /** The last run that sent requests. */
  readonly lastRun: { readonly throttledMs: number; readonly ms: number } | null;
}

/** Judges the service, or one of several sources. Messages about a source begin with its name. */
export function judgeUpstream(facts: UpstreamFacts, skewMsMax: number): Finding[] {
  const { source = null } = facts;
  const findings = [
    ...judgeAccess(facts),
    ...judgeReachability(facts),
    ...(facts.response === null ? [] : [judgeResponse(facts, facts.response)]),
    ...(facts.response?.ticks === undefined ? [] : [judgeTicks(facts.response.ticks)]),
    ...judgeClock(facts.response?.aheadMs ?? null, skewMsMax),
    judgeRate(facts),
  ];
  return source === null ? findings : findings.map((one) => ({ ...one, message: `${source}: ${one.message}` }));
}

function judgeAccess({ baseUrl, hasKey, source = null }: UpstreamFacts): Finding[] {
  const variables = nameVariables(source);
  if (baseUrl === null) {
    const action = `Set ${variables.baseUrl}, e.g. https://example.org, or use a config file with --config.`;
    return [problem('address', exitCodes.usage, 'the address of the market data service is not set', action)];
  }
  if (hasKey) return [];
  const action = `Set ${variables.apiKey}, or ${variables.apiKeyFile} to a file with the key.`;
  return [problem('key', exitCodes.usage, `no API key for ${baseUrl} is set`, action)];
}

const certificateDaysMin = 14;

function judgeReachability({ baseUrl, connection, proxies, source = null, origins }: UpstreamFacts): Finding[] {
  if (connection === null) return [];
  const variable = origins?.baseUrl ?? nameVariables(source).baseUrl;
  const proxyNote = proxies.length === 0 ? '' : ` oddslake connects directly: ${proxies.join(', ')} is ignored.`;
  const unreachable = (found: string, action: string) => [
    problem('reachable', exitCodes.unreachable, found, `${action}${proxyNote}`),
  ];
  if ('failure' in connection)
    return unreachable(`${baseUrl}: ${connection.failure}`, `Check ${variable} and the network.`);
  const { address, ms, certificateDays, distrusted } = connection;
  if (distrusted !== null)
    return unreachable(
      `${baseUrl}: its certificate is not trusted (${distrusted})`,
      `Check ${variable}. To trust a private certificate authority, set NODE_EXTRA_CA_CERTS.`,
    );
  const found = `${baseUrl} (${address}) in ${formatDuration(ms)}`;
  if (certificateDays === null || certificateDays >= certificateDaysMin) return [ok('reachable', found)];
  const action = 'Ask the operator of the service to renew it. Otherwise runs will fail.';
  return [warning('reachable', `${found}; its certificate expires in ${formatCount(certificateDays, 'day')}`, action)];
}

/** Judges the test request. Most failures are caused by the API key. */
function judgeResponse(
  { baseUrl, source = null, origins }: UpstreamFacts,
  { status, failure }: ProbeResponse,
): Finding {
  if (failure === null) return ok('key', `accepted (list of one market: status ${status})`);
  const { failure: kind, reason } = failure;
  const { apiKey, apiKeyFile } = nameVariables(source);
  if (kind === 'credential')
    return problem(
      'key',
      exitCodes.credential,
      `the service rejected it (${reason})`,
      `Check ${origins?.apiKey ?? `${apiKey} or ${apiKeyFile}`}. Ask the operator of the service whether the key is still valid.`,
    );
  const found = `not checked: ${reason}`;
  if (kind === 'unreachable') return problem('key', exitCodes.unreachable, found, 'Check the network.');
  if (status === 429)
    return warning('key', found, 'Another program uses this key, or upstream.requests_per_second is too high.');
  const action =
    kind === 'refused'
      ? `Check that ${baseUrl} is the address of a market data service, and that its path is right.`
      : 'The service has a problem. Try again later.';
  return problem('key', exitCodes.incomplete, found, action);
}

function judgeTicks({ symbol, failure }: NonNullable<ProbeResponse['ticks']>): Finding {
  if (failure === null) return ok('ticks', `the service sends those of ${symbol}`);
  const code = { credential: exitCodes.credential, unreachable: exitCodes.unreachable } as const;
  const exitCode = code[failure.failure as keyof typeof code] ?? exitCodes.incomplete;
  const action =
    'A run that polls this symbol fails as this request did. Try again later, or ask the operator of the service.';
  return problem('ticks', exitCode, `${symbol}: ${failure.reason}`, action);
}

/** Smaller differences may be due to rounding to seconds and the round-trip time. */
const skewMsWarnMin = 5_000;

function judgeClock(aheadMs: number | null, skewMsMax: number): Finding[] {
  if (aheadMs === null) return [];
  const skewMs = Math.abs(aheadMs);
  if (skewMs < Math.min(skewMsWarnMin, skewMsMax)) return [ok('clock', 'same time as the service')];
  const found = `${formatDuration(skewMs)} ${aheadMs > 0 ? 'ahead of' : 'behind'} the service`;
  const action = 'Set the clock, and synchronize it with NTP (systemd-timesyncd, chrony).';
  if (skewMs <= skewMsMax) return [warning('clock', found, action)];
  return [
    problem(
      'clock',
      exitCodes.unexpected,
      `${found}, more than poll.future_skew_seconds (${skewMsMax / 1000} s)`,
      `${action} Ticks with a time in the future are quarantined.`,
    ),
  ];
}

/** Share of a run that may be spent waiting for Retry-After without a warning. */
const throttledShareMax = 0.1;

function judgeRate({ rate, response }: UpstreamFacts): Finding {
  const { configuredPerSecond: configured, adaptedPerSecond: inferred, lastRun } = rate;
  const stated = response?.statedPerSecond ?? null;
  const found = `${formatRate(configured)} a second configured`;
  const suggestRate = (allowed: number): string =>
    `Set upstream.requests_per_second to ${formatRate(allowed)}, or request a higher rate limit for this key.`;
  const statedText = stated === null ? '' : `; the service allows ${formatRate(stated)} a second`;
  if (stated !== null && stated < configured) return warning('rate', `${found}${statedText}`, suggestRate(stated));
  if (inferred !== null && inferred < configured)
    return warning(
      'rate',
      `${found}; the service accepts about ${formatRate(inferred)} a second`,
      suggestRate(inferred),
    );
  if (lastRun !== null && lastRun.throttledMs > throttledShareMax * lastRun.ms)
    return warning(
      'rate',
      `${found}; the last run was throttled for ${formatDuration(lastRun.throttledMs)} of ${formatDuration(lastRun.ms)}`,
      'Lower upstream.requests_per_second, or find out what else uses this key.',
    );
  return ok('rate', `${found}${statedText}`);
}

const formatRate = (rate: number): string => String(Math.floor(rate * 1000) / 1000);

interface UpstreamProbe {
  /** Whether the network may be used. */
  readonly isOnline: boolean;
  readonly env: Environment;
  /** The private folder of the archive; null if there is no archive. */
  readonly privateFolder: string | null;
  /** Summary of the last run that sent requests, as JSON; null if there is none. */
  readonly lastRunSummary: string | null;
}

export async function probeUpstream(context: Context, probe: UpstreamProbe): Promise<UpstreamFacts> {
  const { baseUrl, apiKey, requestsPerSecond } = context.settings.upstream;
  const connection = baseUrl === null || !probe.isOnline ? null : await probeConnection(baseUrl, context.clock);
  const canRequest = connection !== null && !('failure' in connection) && connection.distrusted === null;
  const { sourceName: source } = context.settings;
  const rateStore = probe.privateFolder === null ? null : joinSharedRateStore(probe.privateFolder, undefined, source);
  try {
    return {
      baseUrl,
      hasKey: apiKey !== null,
      source,
      origins: context.settings.upstreamFrom,
      proxies: ['HTTPS_PROXY', 'HTTP_PROXY', 'ALL_PROXY'].filter(
        (name) => probe.env[name] || probe.env[name.toLowerCase()],
      ),
      connection,
      response: canRequest && apiKey !== null ? await sendProbeRequest(context, rateStore) : null,
      rate: {
        configuredPerSecond: requestsPerSecond,
        adaptedPerSecond: rateStore === null ? null : readAdaptedRate(rateStore),
        lastRun: probe.lastRunSummary === null ? null : parseThrottling(probe.lastRunSummary),
      },
    };
  } finally {
    rateStore?.close();
  }
}

function readAdaptedRate(rateStore: SharedRateStore): number | null {
  const inferred = rateStore.runExclusive(() => rateStore.read().inferred);
  return parseInferredRate(inferred)?.rate ?? null;
}

function parseThrottling(summary: string): NonNullable<RateFacts['lastRun']> {
  type Times = Readonly<Record<'throttled_ms' | 'started_at' | 'finished_at', number>>;
  const { throttled_ms: throttledMs, started_at: from, finished_at: to } = JSON.parse(summary) as Times;
  return { throttledMs, ms: to - from };
}

/** Maximum seconds for the test request; the deadline of a nightly run is too long for a user who is waiting. */
const deadlineSecondsMax = 20;

/**
 * Requests a list of one market, which is cheap for the service, and the ticks of one live symbol if there is an archive. One attempt each, within
 * the shared rate limit. Nothing is stored.
 */
async function sendProbeRequest(context: Context, rateStore: SharedRateStore | null): Promise<ProbeResponse> {
  const { settings, clock } = context;
  const [{ openTransport }, { parseServedAt }, { parseRateHeaders }] = await Promise.all([
    import('../client/transport.ts'),
    import('../client/classify-error.ts'),
    import('../client/rate-headers.ts'),
  ]);
  let requestedAt = clock.nowMs();
  let observed: Omit<ProbeResponse, 'failure'> = { status: null, aheadMs: null, statedPerSecond: null };
  const openObserved: OpenTransport = (options, own) => {
    const wire = (context.openWire ?? openTransport)(options, own);
    return {
      ...wire,
      get(path, signal, onHead) {
        requestedAt = clock.nowMs();
        return wire.get(path, signal, (head) => {
          const receivedAt = clock.nowMs();
          const servedAt = parseServedAt(head);
          observed = {
            status: head.status,
            // A Date header is truncated to whole seconds, so add half a second.
            aheadMs: servedAt === null ? null : (requestedAt + receivedAt) / 2 - (servedAt + 500),
            statedPerSecond: parseRateHeaders(head, receivedAt).ratePerSecond ?? null,
          };
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
  const client = await openConfiguredUpstream(
    { ...context, settings: { ...settings, upstream }, openWire: openObserved, log: silent },
    rateStore ?? createLocalRateStore(),
    requireUpstream(settings),
  );
  try {
    await client.markets({ view: settings.source.views[0]!, limit: 1 }, context.signal);
    const response: ProbeResponse = { ...observed, failure: null };
    const symbol =
      rateStore === null
        ? null
        : inspectLiveSymbol(settings.archive.output, getConfiguredSymbols(context), settings.sourceName);
    if (symbol === null) return response;
    const to = clock.nowMs();
    const failure = await client.ticks({ symbol, from: to - hourMs, to, limit: 1 }, context.signal).then(
      () => null,
      (error: unknown) => {
        if (error instanceof UpstreamError) return error;
        throw error;
      },
    );
    return { ...response, ticks: { symbol, failure } };
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    return { ...observed, failure: error };
  } finally {
    await client.close();
  }
}

const connectMsMax = 10_000;

/** Resolves the host of a URL and connects to it, with TLS for https. Sends no request. */
async function probeConnection(url: string, clock: Clock): Promise<UpstreamFacts['connection']> {
  const { protocol, hostname, port } = new URL(url);
  const isTls = protocol === 'https:';
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const startedAt = clock.monotonicMs();
  let socket: Socket | null = null;
  try {
    const { address } = await lookup(host);
    const at = { host: address, port: Number(port) || (isTls ? 443 : 80) };
    // Accept an untrusted certificate, in order to report why. Nothing is sent over this connection.
    const options = { ...at, ...(host === address ? {} : { servername: host }), rejectUnauthorized: false };
    socket = isTls ? connectTls(options) : connect(at);
    await once(socket, isTls ? 'secureConnect' : 'connect', { signal: AbortSignal.timeout(connectMsMax) });
    const certificate = isTls ? readCertificate(socket as TLSSocket, clock.nowMs()) : null;
    return { address, ms: clock.monotonicMs() - startedAt, certificateDays: null, distrusted: null, ...certificate };
  } catch (error) {
    return { failure: describeConnectError(error as NodeJS.ErrnoException) };
  } finally {
    socket?.destroy();
  }
}

function describeConnectError({ name, code, errno, message }: NodeJS.ErrnoException): string {
  if (name === 'AbortError') return 'connection timed out';
  if (code === 'ENOTFOUND') return 'host name not found';
  return typeof errno === 'number' ? getSystemErrorMessage(errno) : `no connection (${code ?? message})`;
}

function readCertificate(socket: TLSSocket, nowMs: number): Pick<Connection, 'certificateDays' | 'distrusted'> {
  const validTo = Date.parse(socket.getPeerCertificate().valid_to);
  const { authorizationError: error } = socket;
  return {
    certificateDays: Number.isNaN(validTo) ? null : Math.floor((validTo - nowMs) / dayMs),
    // Typed as an Error, but a string at run time.
    distrusted: socket.authorized ? null : String((error as { code?: string } | null)?.code ?? error),
  };
}
