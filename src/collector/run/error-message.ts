import { OddslakeError, UpstreamError, UsageError } from '../../base/errors.ts';
import { InterruptedError } from '../../context/context.ts';
import { nameVariables } from '../../settings/layers.ts';
import type { UpstreamOrigins } from '../../settings/settings.ts';

/**
 * Formats an error for the user: what happened, to what, and what to do.
 * @param usesOtherUpstream whether the requests went to another oddslake (`--from-url`)
 * @param source the source that was collected, of an archive's several
 * @param origins where its address and key were set
 */
export function formatErrorMessage(
  error: unknown,
  usesOtherUpstream = false,
  source: string | null = null,
  origins: UpstreamOrigins = unknownOrigins,
): string {
  const { service, key, url } = nameService(usesOtherUpstream, source, origins);
  if (error instanceof UpstreamError && error.failure === 'credential')
    return `${service} rejected the API key (${error.reason}). Check ${key}.`;
  if (error instanceof UpstreamError && error.failure === 'unreachable')
    return `${service} could not be reached (${error.reason}). Check ${url} and the network.`;
  if (error instanceof OddslakeError || error instanceof UpstreamError || error instanceof InterruptedError)
    return error.message;
  if (!(error instanceof Error)) return `Unexpected error: ${String(error)}. ${debugHint}`;
  return formatSystemError(error) ?? `Unexpected error (${error.name}): ${endSentence(error.message)} ${debugHint}`;
}

/** What an error message calls the service, and the settings of its key and address. */
function nameService(isOther: boolean, source: string | null, origins: UpstreamOrigins) {
  if (isOther)
    return {
      service: 'The other oddslake',
      key: 'ODDSLAKE_FROM_API_KEY or ODDSLAKE_FROM_API_KEY_FILE',
      url: '--from-url',
    };
  const { apiKey, apiKeyFile, baseUrl } = nameVariables(source);
  return {
    service: source === null ? 'The upstream' : `The source ${source}`,
    key: origins.apiKey ?? `${apiKey} or ${apiKeyFile}`,
    url: origins.baseUrl ?? baseUrl,
  };
}

/** For errors outside of a run. */
const unknownOrigins: UpstreamOrigins = { baseUrl: null, apiKey: null };

const debugHint = 'To see its stack trace, use --log-level debug.';

const endSentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

/** Meaning of system error codes, and what to do. */
const systemErrorHints: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or folder. Create it, or use another path.',
  ENOTDIR: 'a part of the path is a file, not a folder. Use another path.',
  EISDIR: 'it is a folder, not a file. Use another path.',
  EEXIST: 'it exists already. Use another path.',
  EACCES: 'permission denied. Check its owner and permissions.',
  EPERM: 'permission denied. Check its owner and permissions.',
  EROFS: 'the file system is read-only. Use another path.',
  ENOSPC: 'the disk is full. Free disk space and run again.',
  EDQUOT: 'the disk quota is exceeded. Free disk space and run again.',
  EIO: 'input/output error. Check the disk and run again.',
  EMFILE: 'too many files are open. Raise the limit (ulimit -n) and run again.',
  ENFILE: 'too many files are open on this machine. Stop other programs and run again.',
  ENAMETOOLONG: 'the name is too long. Use another path.',
  ELOOP: 'the symbolic links form a loop. Use another path.',
};

/** Formats an error of a system call; null for any other error. */
function formatSystemError(error: Error): string | null {
  const { code, syscall, path } = error as NodeJS.ErrnoException;
  const meaning = systemErrorHints[code ?? ''];
  if (meaning === undefined || syscall === undefined) return null;
  return `Could not ${syscall} ${path ?? 'a file'}: ${meaning} (${code})`;
}

const listenErrorReasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program uses it',
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'this machine does not have this address',
  ENOTFOUND: 'host name not found',
};

/** Creates the error for a port that cannot be opened. `setting` names it, e.g. `service.port`. */
export function createListenError(
  setting: string,
  port: number,
  host: string,
  error: NodeJS.ErrnoException,
): UsageError {
  const why = listenErrorReasons[error.code ?? ''] ?? error.code ?? error.message;
  return new UsageError(
    `Could not listen on ${host} port ${port} (${setting}): ${why}. Use another port, or 0 for a free one.`,
  );
}
