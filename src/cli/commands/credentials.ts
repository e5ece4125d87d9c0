import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { UsageError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { formatIsoUtc, parseDuration, parseTime } from '../../base/time.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import { completeCommands } from '../../context/command-name.ts';
import { keyScopes } from '../../contract/key-scopes.ts';
import type { Workspace } from '../../server/workspace/workspace.ts';
import {
  type CliContext,
  type CommonFlags,
  createRepeatableOption,
  flagsUnusedByReaders,
  printResult,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { formatKeys, formatKeyUsage, formatKeyUsageByDay, formatTokenRevocations } from '../format-lists.ts';
import { withExamples, withHelp, withNotes } from '../help.ts';
import { requireOwner } from '../require-owner.ts';
import { createIntegerParser } from '../shared-options.ts';

interface CreateFlags extends CommonFlags {
  readonly name: string;
  readonly scope: readonly string[];
  readonly dataset: readonly string[];
  readonly expires?: string;
  readonly requestsPerMinute?: number;
}

interface RotateFlags extends CommonFlags {
  readonly overlap: string;
  readonly expires?: string;
}

interface UsageFlags extends CommonFlags {
  readonly since?: string;
}

const expiresHelp = 'expiry time: epoch ms, YYYY-MM-DD, an ISO-8601 instant, or a duration from now such as 90d';

/** Parses `--expires`, a time or a duration from now. @throws UsageError */
const parseExpiry = (text: string, nowMs: number): number =>
  /^\d+[smhd]$/.test(text) ? nowMs + parseDuration(text, '--expires') : parseTime(text, '--expires');

const requestsMax = 10_000_000;

/** Work with the database of the service, which `open` opens. */
type ServiceWork = (open: <T>(use: (workspace: Workspace) => Promise<T>) => Promise<T>, nowMs: number) => Promise<void>;

/** Runs work that writes to the database of the service. */
const withService = (flags: CommonFlags, version: string, work: ServiceWork, writes = true): Promise<void> =>
  withContext(flags, version, false, async (context) => {
    const { archive, service } = context.settings;
    // Reading creates the database if there is none.
    const isCreated = existsSync(join(archive.output, '.oddslake', 'service.sqlite'));
    if (service.databaseUrl === null && (writes || !isCreated)) requireOwner(context.settings);
    const { withWorkspace } = await import('../../server/open-workspace.ts');
    await work((use) => withWorkspace(context, use), context.clock.nowMs());
  });

/** Runs work that reads it. */
const readService = (flags: CommonFlags, version: string, work: ServiceWork): Promise<void> =>
  withService(flags, version, work, false);

/** `keys create`, `list`, `rotate`, `usage`, `revoke`: API keys for market data. */
export function addKeys(keys: Command, shell: CliContext): void {
  const { version } = shell;

  const create = keys
    .command('create')
    .description('create a key; it is printed once and not stored')
    .requiredOption('--name <name>', 'purpose or owner, shown by oddslake keys list (required)')
    .addOption(
      new Option('--scope <scope...>', 'read: live and historical routes; export: published files')
        .choices(keyScopes)
        .default([], 'all'),
    )
    .addOption(
      createRepeatableOption('--dataset <dataset>', 'permit only this dataset; can be repeated').default([], 'all'),
    )
    .option('--expires <time>', `${expiresHelp} (default: never)`)
    .addOption(
      new Option(
        '--requests-per-minute <n>',
        'rate limit of this key (default: service.requests_per_minute)',
      ).argParser(createIntegerParser(1, requestsMax)),
    );
  withHelp(create, createNotes, createExamples);
  withCommonFlags(create, flagsUnusedByReaders).action((flags: CreateFlags) =>
    withService(flags, version, async (open, nowMs) => {
      const expiresAt = flags.expires === undefined ? null : parseExpiry(flags.expires, nowMs);
      const scopes = flags.scope.length === 0 ? keyScopes : keyScopes.filter((scope) => flags.scope.includes(scope));
      const datasets = flags.dataset.length === 0 ? null : [...new Set(flags.dataset)];
      const requestsPerMinute = flags.requestsPerMinute ?? null;
      const keyOptions = { name: flags.name, expiresAt, requestsPerMinute, scopes, datasets };
      const { id, key } = await open((workspace) => workspace.createKey(keyOptions, nowMs));
      const keyFacts = { created_at: nowMs, expires_at: expiresAt, requests_per_minute: requestsPerMinute };
      printResult(flags, { id, name: flags.name, key, scopes, datasets, ...keyFacts }, () => `${key}\n`);
      const expiry = expiresAt === null ? 'does not expire' : `expires ${formatIsoUtc(expiresAt)}`;
      if (flags.quiet !== true) process.stderr.write(`key ${id} ${expiry}; store it now: it is not shown again\n`);
    }),
  );

  const list = keys
    .command('list')
    .description('list all keys without their secrets, newest first, with state, permissions and last use');
  withCommonFlags(list, flagsUnusedByReaders).action((flags: CommonFlags) =>
    readService(flags, version, async (open, nowMs) => {
      const keyList = await open((workspace) => workspace.listKeys(nowMs));
      printResult(flags, { keys: keyList, count: keyList.length }, (style) => formatKeys(keyList, nowMs, style));
    }),
  );

  addRotate(keys, version);
  addUsage(keys, version);

  const revoke = keys
    .command('revoke')
    .description('revoke keys permanently with all their secrets; a running service rejects them within two seconds')
    .argument('<id...>', 'IDs as shown by oddslake keys list, or the keys themselves');
  withExamples(revoke, revokeExamples);
  withCommonFlags(revoke, flagsUnusedByReaders).action((ids: readonly string[], flags: CommonFlags) =>
    withService(flags, version, async (open, nowMs) => {
      const revoked = await open((workspace) => workspace.revokeKeys(ids, nowMs));
      const lines = revoked.map(
        ({ id, name, revoked_at: at }) => `key ${id} (${name}) was revoked at ${formatIsoUtc(at)}\n`,
      );
      const count = revoked.length > 1 ? `${formatCount(revoked.length, 'key')}\n` : '';
      printResult(flags, { revoked }, () => lines.join('') + count);
    }),
  );
}

/** `keys rotate`: replaces the secret of a key. */
function addRotate(keys: Command, version: string): void {
  const rotate = keys
    .command('rotate')
    .description('give a key a new secret, which is printed once; the earlier one stays valid for a while')
    .argument('<id>', 'ID as shown by oddslake keys list, the name of one active key, or the key itself')
    .option('--overlap <duration>', 'how long the earlier secret stays valid: 12h, 7d; 0s ends it at once', '7d')
    .option('--expires <time>', `new ${expiresHelp} (default: unchanged)`);
  withHelp(rotate, rotateNotes, rotateExamples);
  withCommonFlags(rotate, flagsUnusedByReaders).action((idOrName: string, flags: RotateFlags) =>
    withService(flags, version, async (open, nowMs) => {
      const rotation = {
        idOrName,
        overlapMs: parseDuration(flags.overlap, '--overlap'),
        expiresAt: flags.expires === undefined ? undefined : parseExpiry(flags.expires, nowMs),
      };
      const rotated = await open((workspace) => workspace.rotateKey(rotation, nowMs));
      printResult(flags, rotated, () => `${rotated.key}\n`);
      const { id, previous_until: until } = rotated;
      const earlier =
        until <= nowMs ? 'the earlier secret has ended' : `the earlier secret ends ${formatIsoUtc(until)}`;
      if (flags.quiet !== true)
        process.stderr.write(`key ${id} has a new secret; store it now: it is not shown again; ${earlier}\n`);
    }),
  );
}

const rotateNotes = `
ID, name, permissions, rate limit and usage counts of the key stay the same. oddslake keys revoke ends the new and the
earlier secrets.`;

const rotateExamples = `
  oddslake keys rotate ci --overlap 7d > ci.key
  oddslake keys rotate 699eb61ef163 --overlap 0s
  oddslake keys rotate ci --expires 365d > ci.key`;

/** `keys usage`: requests and bytes by day. */
function addUsage(keys: Command, version: string): void {
  const usage = keys
    .command('usage')
    .description('show the requests and the bytes sent per key, or of one key per UTC day')
    .argument('[id]', 'ID or name of a key (default: all keys)')
    .option('--since <time>', 'first day: epoch ms, YYYY-MM-DD or an ISO-8601 instant (default: all, at most 90 days)');
  withHelp(usage, usageNotes, usageExamples);
  withCommonFlags(usage, flagsUnusedByReaders).action((idOrName: string | undefined, flags: UsageFlags) =>
    readService(flags, version, async (open) => {
      const since = flags.since === undefined ? null : floorToDay(parseTime(flags.since, '--since'));
      const keyUsage = await open((workspace) => workspace.readUsage(idOrName ?? null, since ?? 0));
      printResult(flags, { since, keys: keyUsage, count: keyUsage.length }, (style) =>
        idOrName === undefined ? formatKeyUsage(keyUsage, style) : formatKeyUsageByDay(keyUsage, style),
      );
    }),
  );
}

const usageNotes = `
Requests that were rejected for a permission or the rate limit are included. Services store their counts every 30 seconds.`;

const usageExamples = `
  oddslake keys usage
  oddslake keys usage ci --since 2026-11-01 --json`;

const createNotes = `
Only the key goes to standard output. The service stores a digest: if you lose the key, create another and revoke this one.`;

const createExamples = `
  oddslake keys create --name research-laptop
  oddslake keys create --name ci --expires 2027-01-01 --requests-per-minute 60 > ci.key
  oddslake keys create --name chart --scope read --dataset ticks --dataset candles_1h --expires 90d
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

interface RevokeTokensFlags extends CommonFlags {
  readonly user?: string;
  readonly issuedBefore?: string;
}

const tokenDaysDefault = 30;
const tokenIdBytes = 12;
const tokenScopes = ['research'];

/** `tokens issue`, `list`, `revoke`: user tokens, for operators of the service. */
export function addTokens(tokens: Command, shell: CliContext): void {
  const issue = tokens
    .command('issue')
    .description("sign a user token (JWT) with the service's secret")
    .requiredOption('--user <user>', 'user ID (required)')
    .option('--workspace <workspace>', 'workspace ID (default: none)')
    .addOption(
      new Option('--scope <scope...>', "permission in addition to access to the user's own objects")
        .choices(tokenScopes)
        .default([], 'none'),
    )
    .option(
      '--expires <time>',
      `expiry time: epoch ms, YYYY-MM-DD or an ISO-8601 instant (default: in ${tokenDaysDefault} days)`,
    );
  withHelp(issue, issueNotes, issueExamples);
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
      const { systemRandomBytes } = await import('../../base/system.ts');
      // Hex: an ID is an argument of `tokens revoke`, where a leading hyphen would make it a flag.
      const jti = Buffer.from(systemRandomBytes(tokenIdBytes)).toString('hex');
      const newToken = { user, workspace, scopes, expiresAt, jti };
      const token = await issueUserToken(settings.service.tokens, newToken, nowMs);
      const json = { token, jti, user, workspace, scopes, expires_at: expiresAt };
      printResult(flags, json, () => `${token}\n`);
      if (flags.quiet !== true)
        process.stderr.write(
          `token ${jti} of user ${JSON.stringify(user)}, expires ${formatIsoUtc(expiresAt)}; to end it earlier: ${completeCommands(`oddslake tokens revoke ${jti}`)}\n`,
        );
    }),
  );
  addTokenRevocations(tokens, shell.version);
}

/** `tokens list` and `tokens revoke`. */
function addTokenRevocations(tokens: Command, version: string): void {
  const list = tokens
    .command('list')
    .description('list the revocations of user tokens that are in force, newest first');
  withNotes(list, tokenListNotes);
  withCommonFlags(list, flagsUnusedByReaders).action((flags: CommonFlags) =>
    readService(flags, version, async (open, nowMs) => {
      const revocations = await open((workspace) => workspace.listTokenRevocations(nowMs));
      printResult(flags, { revocations, count: revocations.length }, (style) =>
        formatTokenRevocations(revocations, style),
      );
    }),
  );

  const revoke = tokens
    .command('revoke')
    .description('revoke user tokens; a running service rejects them within a minute')
    .argument('[id...]', 'IDs (jti) of tokens, or the tokens themselves')
    .option('--user <user>', 'revoke all tokens of this user that were issued before --issued-before')
    .option('--issued-before <time>', 'epoch ms, YYYY-MM-DD or an ISO-8601 instant, at most now (default: now)');
  withHelp(revoke, tokenRevokeNotes, tokenRevokeExamples);
  withCommonFlags(revoke, flagsUnusedByReaders).action((ids: readonly string[], flags: RevokeTokensFlags) =>
    withService(flags, version, async (open, nowMs) => {
      const { parseRevokedToken } = await import('../../server/workspace/user-tokens.ts');
      const { user, issuedBefore } = flags;
      if (user === undefined && issuedBefore !== undefined) throw new UsageError('--issued-before requires --user.');
      const issuedBeforeMs = issuedBefore === undefined ? nowMs : parseTime(issuedBefore, '--issued-before');
      const revocation = {
        tokens: ids.map(parseRevokedToken),
        user: user === undefined ? null : { user, issuedBefore: issuedBeforeMs },
      };
      await open((workspace) => workspace.revokeTokens(revocation, nowMs));
      const jtis = revocation.tokens.map(({ jti }) => jti);
      const json = { revoked: jtis, user: user ?? null, issued_before: user === undefined ? null : issuedBeforeMs };
      const ofUser = `tokens of user ${JSON.stringify(user)} that were issued before ${formatIsoUtc(issuedBeforeMs)} are revoked\n`;
      printResult(
        flags,
        json,
        () => jtis.map((jti) => `token ${jti} is revoked\n`).join('') + (user === undefined ? '' : ofUser),
      );
    }),
  );
}

const tokenListNotes = `
Issued tokens are not stored, so they are not listed. The revocation of a token is removed after the token has expired.`;

const tokenRevokeNotes = `
Works for tokens of oddslake tokens issue and of an issuer with a key set. A token that was issued within the second of
--issued-before is revoked, too; a token without iat is always revoked with its user. If you give a token instead of its ID, the
revocation is removed when the token expires; otherwise it is kept.`;

const tokenRevokeExamples = `
  oddslake tokens revoke 5f0c9d0f6a1be2c3d4e5f607
  oddslake tokens revoke "$(cat alice.token)"
  oddslake tokens revoke --user alice
  oddslake tokens revoke --user alice --issued-before 2026-11-01`;

const issueNotes = `
Needs ODDSLAKE_TOKEN_SECRET (or service.tokens.secret in the config), with the same value as oddslake serve. A token is valid until it
expires or is revoked; changing the secret invalidates all tokens.`;

const issueExamples = `
  ODDSLAKE_TOKEN_SECRET=$(cat token.secret) oddslake tokens issue --user alice --scope research
  oddslake tokens issue --config lake.yaml --user bot-7 --workspace research --expires 2027-01-01`;
