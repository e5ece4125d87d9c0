import { join } from 'node:path';
import type { Archive } from '../archive/archive.ts';
import { systemRandomBytes } from '../base/system.ts';
import type { Context } from '../context/context.ts';
import { openConfiguredArchive } from '../context/open-configured.ts';
import { parseDatabaseUrl } from './workspace/database-url.ts';
import type { UserTokenSettings } from './workspace/user-tokens.ts';
import { openWorkspace, type Workspace } from './workspace/workspace.ts';

/** Opens the service's database as configured: the URL in the settings, or by default the one in the archive. */
export const openConfiguredWorkspace = (
  { settings, clock, log }: Context,
  archive: Pick<Archive, 'layout'> | null,
  tokens: UserTokenSettings | null = settings.service.tokens,
): Promise<Workspace> =>
  openWorkspace({
    location: parseDatabaseUrl(
      settings.service.databaseUrl,
      archive === null ? null : join(archive.layout.privateFolder, 'service.sqlite'),
    ),
    tokens,
    randomBytes: systemRandomBytes,
    clock,
    log,
  });

/** Opens the database for a task that verifies no user tokens. If a database URL is set, the archive need not exist. */
export async function withWorkspace<T>(context: Context, work: (workspace: Workspace) => Promise<T>): Promise<T> {
  using archive = context.settings.service.databaseUrl === null ? openConfiguredArchive(context, false) : null;
  return await withWorkspaceOf(context, archive, work);
}

/** The same with the archive open. */
export async function withWorkspaceOf<T>(
  context: Context,
  archive: Archive | null,
  work: (workspace: Workspace) => Promise<T>,
): Promise<T> {
  const workspace = await openConfiguredWorkspace(context, archive, null);
  try {
    return await work(workspace);
  } finally {
    await workspace.close();
  }
}
