import type { Socket } from 'node:net';
import type { App, ServiceContext } from '../http/service-context.ts';

/** Interval between two writes of the counts to the database, ms. A killed process loses the counts since the last one. */
const flushEveryMs = 30_000;

/** Counts the requests and the sent bytes of every key. Call it before the authentication hook is added. */
export function countKeyUsage(app: App, { workspace: { usage } }: Pick<ServiceContext, 'workspace'>): void {
  // A connection carries several responses. With HTTP pipelining they may all end with the last one, so that their sum is
  // exact, but not its division between several keys.
  const countedBytes = new WeakMap<Socket, number>();
  app.addHook('onRequest', (request, reply, done) => {
    const { socket } = request.raw;
    const startBytes = socket.bytesWritten;
    // Not onResponse, which does not run for an aborted response. Rejected requests of a key count, too.
    reply.raw.once('close', () => {
      const sentBytes = socket.bytesWritten;
      const bytes = sentBytes - Math.max(startBytes, countedBytes.get(socket) ?? 0);
      countedBytes.set(socket, sentBytes);
      if (request.principal?.kind === 'key' && request.principal.visitor === undefined)
        usage.record(request.principal.id, Math.max(0, bytes));
    });
    done();
  });
  let timer: NodeJS.Timeout | undefined;
  app.addHook('onReady', async () => {
    timer = setInterval(() => void usage.flush(), flushEveryMs).unref();
  });
  // The workspace stores the last counts when it is closed.
  app.addHook('onClose', async () => clearInterval(timer));
}
