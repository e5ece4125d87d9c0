import type { Clock } from '../core/clock.ts';
import type { App } from './fastify-types.ts';

/** Takes no more connections, lets what is under way come to its end, and cuts off what has not after `msMax`. */
export async function stopService(app: App, clock: Clock, msMax: number): Promise<void> {
  const ended = new AbortController();
  const bound = clock.sleep(msMax, ended.signal).then(
    () => app.server.closeAllConnections(),
    () => {},
  );
  await app.close();
  ended.abort();
  await bound;
}
