import { Option } from 'commander';
import { formatIsoUtc, parseTime } from '../../base/time.ts';
import { dayMs } from '../../base/window.ts';
import { type CliContext, type CommonFlags, withCommonFlags, withContext } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';

interface IssueFlags extends CommonFlags {
  readonly user: string;
  readonly workspace?: string;
  readonly scope: readonly string[];
  readonly expires?: string;
}

const daysDefault = 30;
const scopes = ['research'];

/** `tokens issue`: signs user tokens, for operators of the service. */
export function addTokens(shell: CliContext): void {
  const tokens = shell.program.command('tokens').description('manage the user tokens of the service: issue');
  const issue = tokens
    .command('issue')
    .description('sign a user token (JWT) with the secret of the service')
    .requiredOption('--user <user>', 'required: the user ID')
    .option('--workspace <workspace>', 'the workspace ID (default: none)')
    .addOption(
      new Option('--scope <scope...>', 'permission beyond the objects of the user').choices(scopes).default([], 'none'),
    )
    .option(
      '--expires <time>',
      `expiry time: epoch ms, YYYY-MM-DD or an ISO-8601 instant (default: in ${daysDefault} days)`,
    );
  withNotes(issue, notes);
  withExamples(issue, examples);
  withCommonFlags(issue, ['--no-progress', '--wait', '--strict', '--output']).action((flags: IssueFlags) =>
    withContext(flags, shell.version, false, async ({ settings, clock }) => {
      const { issueUserToken } = await import('../../server/workspace/user-tokens.ts');
      const nowMs = clock.nowMs();
      const expiresAtMs =
        flags.expires === undefined ? nowMs + daysDefault * dayMs : parseTime(flags.expires, '--expires');
      // The expiry time of a token is in seconds.
      const expiresAt = Math.floor(expiresAtMs / 1000) * 1000;
      const { user, workspace = null } = flags;
      const scopes = [...new Set(flags.scope)];
      const token = await issueUserToken(settings.service.tokens, { user, workspace, scopes, expiresAt }, nowMs);
      const json = { token, user, workspace, scopes, expires_at: expiresAt };
      process.stdout.write(flags.json === true ? `${JSON.stringify(json)}\n` : `${token}\n`);
      if (flags.quiet !== true)
        process.stderr.write(
          `token of user ${JSON.stringify(user)}, expires ${formatIsoUtc(expiresAt)}; it cannot be revoked\n`,
        );
    }),
  );
}

const notes = `
Needs ODDSLAKE_TOKEN_SECRET (or service.tokens.secret in the config), the same as oddslake serve. A token is valid until it
expires; changing the secret invalidates all tokens.`;

const examples = `
  ODDSLAKE_TOKEN_SECRET=$(cat token.secret) oddslake tokens issue --user alice --scope research
  oddslake tokens issue --config lake.yaml --user bot-7 --workspace research --expires 2027-01-01`;
