import type { PaceMemory } from '../core/rate-state.ts';
import type { UpstreamAccess } from '../settings/settings.ts';
import type { ReceivedAnswer } from '../upstream/options.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { Context } from './context.ts';

/** Opens a client of the archive's upstream with the settings' bounds, at this pace. */
export async function connect(
  context: Context,
  pace: PaceMemory,
  { baseUrl, apiKey }: UpstreamAccess,
  onAnswer?: (answer: ReceivedAnswer) => void,
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
      pace,
      openWire: context.openWire,
      ...(onAnswer === undefined ? {} : { onAnswer }),
    },
  );
}

/**
 * Opens a client of another service than the archive's upstream: what that one has taught of its rate says nothing of
 * this one, and its answers are not kept as the upstream's.
 */
export async function connectOther(context: Context, access: UpstreamAccess): Promise<Upstream> {
  const { createOwnMemory } = await import('../upstream/local-rate-store.ts');
  return connect(context, createOwnMemory(), access);
}
