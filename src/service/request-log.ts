import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify';
import type { Log } from '../core/log.ts';
import type { ServiceContext } from './context.ts';

const pathLengthMax = 200;

/** Routes that are asked every few seconds by machines. */
const probePaths = new Set(['/healthz', '/readyz', '/metrics']);

/**
 * One line a request: never its query, its headers or its body, in which secrets may stand.
 * @param status null where the client went away before it had its answer
 */
export function logRequest(
  { log }: ServiceContext,
  request: FastifyRequest,
  reply: FastifyReply | null,
  status: number | null,
): void {
  const { id, method, principal, ip } = request;
  const [path = ''] = (request.raw.url ?? '').split('?', 1);
  const facts = {
    request_id: id,
    method,
    path: path.slice(0, pathLengthMax),
    status,
    ...(reply === null ? {} : { ms: Math.round(reply.elapsedTime * 10) / 10 }),
    client: ip,
    ...(principal?.kind === 'key' ? { key: principal.id } : {}),
    ...(principal?.kind === 'user' ? { user: principal.user } : {}),
  };
  const note = status === null ? 'the client went away' : 'answered';
  if (probePaths.has(path)) log.debug(facts, note);
  else log.info(facts, note);
}

/** What the framework has to say on its own account: its warnings and errors only. */
export function createFrameworkLog(log: Log): FastifyBaseLogger {
  const told =
    (level: 'warn' | 'error') =>
    (facts: unknown, message?: unknown): void => {
      if (typeof facts === 'string') log[level]({}, facts);
      else log[level]({ err: (facts as { err?: unknown }).err }, String(message ?? 'an answer was broken off'));
    };
  const quiet = (): void => {};
  const logger = {
    level: 'warn',
    trace: quiet,
    debug: quiet,
    info: quiet,
    silent: quiet,
    warn: told('warn'),
    error: told('error'),
    fatal: told('error'),
    child: () => logger,
  };
  return logger as unknown as FastifyBaseLogger;
}
