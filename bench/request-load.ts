import { openRawClient } from './raw-client.ts';
import type { BenchedService } from './service.ts';

interface LoadOptions {
  readonly key: string;
  readonly connections: number;
  /** The load ends after this time, or when `next` returns null. */
  readonly seconds: number;
  /** Further request headers, such as `accept-encoding`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The path of the next request; null if there is none. */
  next(): string | null;
}

/** Requests over several connections, each of which sends one request after another. */
export interface LoadResult {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU time of the service per request, of all its threads, in milliseconds; NaN without /proc. */
  readonly cpuMsPerRequest: number;
  /** The same of this process, which sends the requests. */
  readonly clientCpuMsPerRequest: number;
  /** Mean size of a body. */
  readonly bytes: number;
}

/** @throws if a request is not answered with 200 */
export async function runLoad(
  service: Pick<BenchedService, 'url' | 'cpuMs'>,
  options: LoadOptions,
): Promise<LoadResult> {
  const { key, connections, seconds, headers = {}, next } = options;
  const clients = await Promise.all(
    Array.from({ length: connections }, () => openRawClient(service.url, key, headers)),
  );
  const durations: number[] = [];
  let bytes = 0;
  const cpuBefore = service.cpuMs();
  const clientBefore = process.cpuUsage();
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1000;
  await Promise.all(
    clients.map(async (client) => {
      for (let at = performance.now(); at < endsAt; ) {
        const path = next();
        if (path === null) break;
        const body = await client.get(path);
        bytes += body.length;
        const now = performance.now();
        durations.push(now - at);
        at = now;
      }
    }),
  );
  const elapsed = (performance.now() - startedAt) / 1000;
  const cpuMs = service.cpuMs() - cpuBefore;
  const { user, system } = process.cpuUsage(clientBefore);
  for (const client of clients) client.close();
  durations.sort((a, b) => a - b);
  const quantile = (share: number): number => durations[Math.floor((durations.length - 1) * share)]!;
  return {
    requestsPerSecond: durations.length / elapsed,
    p50Ms: quantile(0.5),
    p99Ms: quantile(0.99),
    cpuMsPerRequest: cpuMs / durations.length,
    clientCpuMsPerRequest: (user + system) / 1000 / durations.length,
    bytes: bytes / durations.length,
  };
}
