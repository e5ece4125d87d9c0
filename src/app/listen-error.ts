import { UsageError } from '../core/errors.ts';

const listenErrorReasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program has it',
  EACCES: 'this user may not listen there',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'there is no host of that name',
};

/** A port that cannot be had; `setting` names it, e.g. `service.port`. */
export function createListenError(
  setting: string,
  port: number,
  host: string,
  error: NodeJS.ErrnoException,
): UsageError {
  const why = listenErrorReasons[error.code ?? ''] ?? error.code ?? error.message;
  return new UsageError(`${setting} ${port} at ${host} cannot be had: ${why}. Set another, or 0 for a free one.`);
}
