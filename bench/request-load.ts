import { openRawClient } from './raw-client.ts';
import type { BenchedService } from './service.ts';

export interface LoadOptions {
  readonly key: string;
  readonly connections: number;
  readonly seconds: number;
  /** Further request headers, such as `accept-encoding`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The path of the next request. */
  next(): string;
}

/** Requests over several connections, each of which sends one request after another. */
export interface LoadResult {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU time of the service per request, of all its threads, in milliseconds; NaN without /proc. */
  readonly cpuMsPerRequest: number;
  /** Mean size of a body. */
  readonly bytes: number;
}

/** @throws if a request is not answered with 200 */
export async function runLoad(service: BenchedService, options: LoadOptions): Promise<LoadResult> {
  const { key, connections, seconds, headers = {}, next } = options;
  const clients = await Promise.all(
    Array.from({ length: connections }, () => openRawClient(service.url, key, headers)),
  );
  const durations: number[] = [];
  let bytes = 0;
  const cpuBefore = service.cpuMs();
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1000;
  await Promise.all(
    clients.map(async (client) => {
      for (let at = performance.now(); at < endsAt; ) {
        const body = await client.get(next());
        bytes += body.length;
        const now = performance.now();
        durations.push(now - at);
        at = now;
      }
    }),
  );
  const elapsed = (performance.now() - startedAt) / 1000;
  const cpuMs = service.cpuMs() - cpuBefore;
  for (const client of clients) client.close();
  durations.sort((a, b) => a - b);
  const quantile = (share: number): number => durations[Math.floor((durations.length - 1) * share)]!;
  return {
    requestsPerSecond: durations.length / elapsed,
    p50Ms: quantile(0.5),
    p99Ms: quantile(0.99),
    cpuMsPerRequest: cpuMs / durations.length,
    bytes: bytes / durations.length,
  };
}

export const formatLoad = ({ requestsPerSecond, p50Ms, p99Ms, cpuMsPerRequest, bytes }: LoadResult): string =>
  `${requestsPerSecond.toFixed(0)} requests/s, p50 ${p50Ms.toFixed(2)} ms, p99 ${p99Ms.toFixed(2)} ms, CPU ${cpuMsPerRequest.toFixed(3)} ms, body ${(bytes / 1000).toFixed(1)} kB`;
