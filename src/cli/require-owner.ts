import { findOtherOwner, getUserName } from '../archive/disk/owner.ts';
import { UsageError } from '../base/errors.ts';
import { quoteShellWord } from '../base/shell-quote.ts';
import { getCommandName, getRunArgs } from '../context/command-name.ts';
import { readProcessEnvironment } from '../settings/environment.ts';
import { isSecretSetting } from '../settings/layers.ts';
import { listSecrets, type Settings } from '../settings/settings.ts';

/** Variables that sudo removes, and that a command may need. */
const keptVariables = /^(ODDSLAKE|AWS)_|^NODE_EXTRA_CA_CERTS$/;

/**
 * Checks that this process runs as the owner of an archive, before it writes there: its files would make the later runs of the
 * owner fail. Root is no exception.
 * @param root default: the archive of the settings
 * @throws UsageError with the command that works
 */
export function requireOwner(settings: Settings, root = settings.archive.output): void {
  const owner = findOtherOwner(root);
  if (owner === null) return;
  const kept = Object.keys(readProcessEnvironment()).filter((name) => keptVariables.test(name));
  const words = [
    ...['sudo', '-u', owner],
    ...(kept.length === 0 ? [] : [`--preserve-env=${kept.join(',')}`]),
    ...removeSecrets(listSecrets(settings), getRunArgs()),
  ].map(quoteShellWord);
  words.splice(kept.length === 0 ? 3 : 4, 0, getCommandName());
  const user = getUserName(process.geteuid!());
  throw new UsageError(
    `${root} belongs to ${owner}, and files of ${user} in it would make the runs of ${owner} fail. Run as the owner: ${words.join(' ')}`,
  );
}

/**
 * Removes secret values from command line arguments, together with the `--set` before them. A secret that a later --set
 * overrides is in none of the settings, but remains a secret.
 */
export function removeSecrets(secrets: readonly string[], args: readonly string[]): string[] {
  // A very short secret is in unrelated words, too.
  const isSecret = (arg: string | undefined): boolean =>
    secrets.some((secret) =>
      secret.length >= 4 ? arg?.includes(secret) === true : arg === secret || arg?.endsWith(`=${secret}`) === true,
    );
  const setsSecret = (assignment: string | undefined): boolean =>
    isSecret(assignment) || isSecretSetting(assignment?.split('=', 1)[0]?.trim() ?? '');
  return args.filter((arg, i) => {
    if (arg === '--set') return !setsSecret(args[i + 1]);
    if (args[i - 1] === '--set') return !setsSecret(arg);
    return !(arg.startsWith('--set=') ? setsSecret(arg.slice('--set='.length)) : isSecret(arg));
  });
}
