import { Option } from 'commander';
import { formatCount } from '../../base/format-quantity.ts';
import { formatIsoUtc, parseTime } from '../../base/time.ts';
import { dayMs } from '../../base/window.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { createIntegerParser } from '../options.ts';
import { getTerminalStyle } from '../terminal-style.ts';

interface CreateFlags extends CommonFlags {
  readonly name: string;
  readonly expires?: string;
  readonly requestsPerMinute?: number;
}

const requestsMax = 10_000_000;

/** `keys create`, `keys list`, `keys revoke`: API keys for market data. */
export function addKeys(shell: CliContext): void {
  const { version } = shell;
  const keys = shell.program.command('keys').description('create, list and revoke the market data keys of the service');

  const create = keys
    .command('create')
    .description('create a key; it is printed once and not stored')
    .requiredOption('--name <name>', 'purpose or owner, shown by oddslake keys list (required)')
    .option('--expires <time>', 'expiry time: epoch ms, YYYY-MM-DD or an ISO-8601 instant (default: never)')
    .addOption(
      new Option(
        '--requests-per-minute <n>',
        'rate limit of this key (default: service.requests_per_minute)',
      ).argParser(createIntegerParser(1, requestsMax)),
    );
  withNotes(create, createNotes);
  withExamples(create, createExamples);
  withCommonFlags(create, flagsUnusedByReaders).action((flags: CreateFlags) =>
    withContext(flags, version, false, async (context) => {
      const { withWorkspace } = await import('../../server/open-workspace.ts');
      const expiresAt = flags.expires === undefined ? null : parseTime(flags.expires, '--expires');
      const keyOptions = { name: flags.name, expiresAt, requestsPerMinute: flags.requestsPerMinute ?? null };
      const nowMs = context.clock.nowMs();
      const { id, key } = await withWorkspace(context, (workspace) => workspace.createKey(keyOptions, nowMs));
      const keyFacts = { created_at: nowMs, expires_at: expiresAt, requests_per_minute: keyOptions.requestsPerMinute };
      printResult(flags, { id, name: flags.name, key, ...keyFacts }, () => `${key}\n`);
      const expiry = expiresAt === null ? 'does not expire' : `expires ${formatIsoUtc(expiresAt)}`;
      if (flags.quiet !== true) process.stderr.write(`key ${id} ${expiry}; store it now: it is not shown again\n`);
    }),
  );

  const list = keys.command('list').description('list all keys without their secrets, newest first, with their state');
  withCommonFlags(list, flagsUnusedByReaders).action((flags: CommonFlags) =>
    withContext(flags, version, false, async (context) => {
      const [{ withWorkspace }, { formatKeys }] = await Promise.all([
        import('../../server/open-workspace.ts'),
        import('../format-lists.ts'),
      ]);
      const keyList = await withWorkspace(context, (workspace) => workspace.listKeys(context.clock.nowMs()));
      printResult(flags, { keys: keyList, count: keyList.length }, () =>
        formatKeys(keyList, getTerminalStyle(process.stdout)),
      );
    }),
  );

  const revoke = keys
    .command('revoke')
    .description('revoke keys permanently; a running service rejects them within two seconds')
    .argument('<id...>', 'IDs as shown by oddslake keys list, or the keys themselves');
  withExamples(revoke, revokeExamples);
  withCommonFlags(revoke, flagsUnusedByReaders).action((ids: readonly string[], flags: CommonFlags) =>
    withContext(flags, version, false, async (context) => {
      const { withWorkspace } = await import('../../server/open-workspace.ts');
      const revoked = await withWorkspace(context, (workspace) => workspace.revokeKeys(ids, context.clock.nowMs()));
      const lines = revoked.map(
        ({ id, name, revoked_at: at }) => `key ${id} (${name}) was revoked at ${formatIsoUtc(at)}\n`,
      );
      const count = revoked.length > 1 ? `${formatCount(revoked.length, 'key')}\n` : '';
      printResult(flags, { revoked }, () => lines.join('') + count);
    }),
  );
}

const createNotes = `
Only the key goes to standard output. The service stores a digest: if you lose the key, create another and revoke this one.`;

const createExamples = `
  oddslake keys create --name research-laptop
  oddslake keys create --name ci --expires 2027-01-01 --requests-per-minute 60 > ci.key
  curl -H "Authorization: Bearer $(cat ci.key)" http://127.0.0.1:8080/api/v1/markets`;

const revokeExamples = `
  oddslake keys revoke 699eb61ef163
  oddslake keys revoke "$(cat ci.key)"`;

interface IssueFlags extends CommonFlags {
  readonly user: string;
  readonly workspace?: string;
  readonly scope: readonly string[];
  readonly expires?: string;
}

const tokenDaysDefault = 30;
const tokenScopes = ['research'];

/** `tokens issue`: signs user tokens, for operators of the service. */
export function addTokens(shell: CliContext): void {
  const tokens = shell.program.command('tokens').description('issue user tokens of the service');
  const issue = tokens
    .command('issue')
    .description('sign a user token (JWT) with the secret of the service')
    .requiredOption('--user <user>', 'user ID (required)')
    .option('--workspace <workspace>', 'workspace ID (default: none)')
    .addOption(
      new Option('--scope <scope...>', 'permission in addition to the objects of the user')
        .choices(tokenScopes)
        .default([], 'none'),
    )
    .option(
      '--expires <time>',
      `expiry time: epoch ms, YYYY-MM-DD or an ISO-8601 instant (default: in ${tokenDaysDefault} days)`,
    );
  withNotes(issue, issueNotes);
  withExamples(issue, issueExamples);
  withCommonFlags(issue, ['--no-progress', '--wait', '--strict', '--output']).action((flags: IssueFlags) =>
    withContext(flags, shell.version, false, async ({ settings, clock }) => {
      const { issueUserToken } = await import('../../server/workspace/user-tokens.ts');
      const nowMs = clock.nowMs();
      const expiresAtMs =
        flags.expires === undefined ? nowMs + tokenDaysDefault * dayMs : parseTime(flags.expires, '--expires');
      // The expiry time of a token is in seconds.
      const expiresAt = Math.floor(expiresAtMs / 1000) * 1000;
      const { user, workspace = null } = flags;
      const scopes = [...new Set(flags.scope)];
      const token = await issueUserToken(settings.service.tokens, { user, workspace, scopes, expiresAt }, nowMs);
      const json = { token, user, workspace, scopes, expires_at: expiresAt };
      printResult(flags, json, () => `${token}\n`);
      if (flags.quiet !== true)
        process.stderr.write(
          `token of user ${JSON.stringify(user)}, expires ${formatIsoUtc(expiresAt)}; it cannot be revoked\n`,
        );
    }),
  );
}

const issueNotes = `
Needs ODDSLAKE_TOKEN_SECRET (or service.tokens.secret in the config), with the same value as oddslake serve. A token is valid until it
expires; changing the secret invalidates all tokens.`;

const issueExamples = `
  ODDSLAKE_TOKEN_SECRET=$(cat token.secret) oddslake tokens issue --user alice --scope research
  oddslake tokens issue --config lake.yaml --user bot-7 --workspace research --expires 2027-01-01`;
