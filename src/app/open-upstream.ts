import type { RateStateStore } from '../core/rate-state.ts';
import type { UpstreamAccess } from '../settings/settings.ts';
import type { ReceivedResponse } from '../upstream/options.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { Context } from './context.ts';

/** Opens a client of the archive's upstream with the settings' bounds, at this pace. */
export async function openConfiguredUpstream(
  context: Context,
  pace: RateStateStore,
  { baseUrl, apiKey }: UpstreamAccess,
  onAnswer?: (answer: ReceivedResponse) => void,
): Promise<Upstream> {
  const { upstream } = context.settings;
  const { openUpstream } = await import('../upstream/client.ts');
  return openUpstream(
    {
      baseUrl,
      apiKey,
      requestsPerSecond: upstream.requestsPerSecond,
      concurrency: upstream.concurrency,
      requestDeadlineMs: upstream.requestDeadlineSeconds * 1000,
      responseBytesMax: upstream.responseBytesMax,
      retryAttemptsMax: upstream.retryAttemptsMax,
      retryDelayMsMin: upstream.retryDelaySecondsMin * 1000,
      retryDelayMsMax: upstream.retryDelaySecondsMax * 1000,
      retryAfterMsMax: upstream.retryAfterSecondsMax * 1000,
      userAgent: `oddslake/${context.version}`,
    },
    {
      clock: context.clock,
      random: context.random,
      log: context.log,
      rateStore: pace,
      openTransport: context.openWire,
      ...(onAnswer === undefined ? {} : { onResponse: onAnswer }),
    },
  );
}

/**
 * Opens a client of another service than the archive's upstream: what that one has taught of its rate says nothing of
 * this one, and its answers are not kept as the upstream's.
 */
export async function openOtherUpstream(context: Context, access: UpstreamAccess): Promise<Upstream> {
  const { createLocalRateStore } = await import('../upstream/local-rate-store.ts');
  return openConfiguredUpstream(context, createLocalRateStore(), access);
}
