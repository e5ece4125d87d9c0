import { OddslakeError, UpstreamError, UsageError } from '../../base/errors.ts';
import { InterruptedError } from '../../context/context.ts';

/**
 * What happened, to what, and what to do, in a sentence or two for the person at the terminal. `usesOtherUpstream`: it was not the
 * archive's upstream that was asked.
 */
export function formatErrorMessage(error: unknown, asksOther = false): string {
  const [asked, key, url] = asksOther
    ? ['The other oddslake', 'ODDSLAKE_FROM_API_KEY', '--from-url']
    : ['The upstream', 'ODDSLAKE_API_KEY', 'ODDSLAKE_BASE_URL'];
  if (error instanceof UpstreamError && error.failure === 'credential')
    return `${asked} refused the key (${error.reason}). Check ${key} or ${key}_FILE.`;
  if (error instanceof UpstreamError && error.failure === 'unreachable')
    return `${asked} could not be reached (${error.reason}). Check ${url} and the network.`;
  if (error instanceof OddslakeError || error instanceof UpstreamError || error instanceof InterruptedError)
    return error.message;
  if (!(error instanceof Error)) return `Something unexpected went wrong: ${String(error)}. ${debugHint}`;
  return (
    formatSystemError(error) ??
    `Something unexpected went wrong (${error.name}): ${endSentence(error.message)} ${debugHint}`
  );
}

const debugHint = '--log-level debug shows where it came from.';

const endSentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

/** What the codes of the system mean, and what can be done. */
const systemErrorHints: Readonly<Record<string, string>> = {
  ENOENT: 'it is not there (any more). Make it, or name another place.',
  ENOTDIR: 'a part of its path is a file, not a folder. Name another place.',
  EISDIR: 'it is a folder, not a file. Name another place.',
  EEXIST: 'something of that name is there already. Name another place.',
  EACCES: 'permission denied. Check its owner and permissions.',
  EPERM: 'permission denied. Check its owner and permissions.',
  EROFS: 'its file system is read-only. Name another place.',
  ENOSPC: 'the disk is full. Free some space and run again.',
  EDQUOT: 'the quota of the disk is used up. Free some space and run again.',
  EIO: 'the disk failed. Check it and run again.',
  EMFILE: 'too many files are open. Raise the limit (ulimit -n) and run again.',
  ENFILE: 'too many files are open on this machine. End other programs and run again.',
  ENAMETOOLONG: 'its name is too long. Name another place.',
  ELOOP: 'its links lead in a circle. Name another place.',
};

/** An error of a system call upon a path; null for any other. */
function formatSystemError(error: Error): string | null {
  const { code, syscall, path } = error as NodeJS.ErrnoException;
  const meaning = systemErrorHints[code ?? ''];
  if (meaning === undefined || syscall === undefined) return null;
  return `Could not ${syscall} ${path ?? 'a file'}: ${meaning} (${code})`;
}

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
