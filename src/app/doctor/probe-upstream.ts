import { UpstreamError } from '../../core/errors.ts';
import type { Environment } from '../../settings/environment.ts';
import { requireUpstream } from '../../settings/settings.ts';
import type { SharedRateStore } from '../../state/rate-limit-store.ts';
import type { OpenTransport } from '../../upstream/transport.ts';
import type { Context } from '../context.ts';
import { openConfiguredUpstream } from '../open-upstream.ts';
import { probeConnection } from './probe-connection.ts';
import type { ProbeResponse, RateFacts, UpstreamFacts } from './upstream.ts';

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
      : (await import('../../state/rate-limit-store.ts')).joinSharedRateStore(probe.privateFolder);
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
    import('../../upstream/transport.ts'),
    import('../../upstream/classify-error.ts'),
    import('../../upstream/rate-headers.ts'),
    import('../../upstream/local-rate-store.ts'),
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
