import type { Archive } from '../archive/archive.ts';
import { watchManifest } from '../archive/read/manifest-watcher.ts';
import { openVerifiedFiles } from '../archive/read/verified-files.ts';
import { systemRandomBytes } from '../base/system.ts';
import { createListenError } from '../collector/run/error-message.ts';
import type { Context } from '../context/context.ts';
import { paths } from '../contract/paths.ts';
import { openPageSessions } from './auth/page-sessions.ts';
import { isCataloguePublic } from './auth/public-access.ts';
import { createService } from './create-service.ts';
import { serviceLimits, stopService } from './http/connection-limits.ts';
import type { LiveReads } from './http/service-context.ts';
import { openConfiguredWorkspace } from './open-workspace.ts';

export interface RunningService {
  /** Base URL, such as http://127.0.0.1:8080 */
  readonly url: string;
  /** URL of the documentation page. */
  readonly docs: string;
  /** Whether the catalogue page needs no key, at least on this machine. */
  readonly isPublic: boolean;
  /** Creates a URL that signs in to the catalogue page, once. It contains a secret. */
  createSignInLink(): string;
  /** Waits for running requests, and stops. */
  stop(): Promise<void>;
}

/** Starts the service for an archive, which must stay open until the service has stopped. */
export async function startService(context: Context, archive: Archive): Promise<RunningService> {
  const { host, port } = context.settings.service;
  const workspace = await openConfiguredWorkspace(context, archive);
  const sessions = openPageSessions(context.clock, systemRandomBytes);
  let live: LiveReads | null = null;
  const closeAll = async (): Promise<void> => {
    await live?.close();
    await workspace.close();
  };
  try {
    live = await openConfiguredLiveReads(context, archive);
    const app = await createService({
      ...context,
      archive,
      workspace,
      live,
      sessions,
      current: watchManifest(archive),
      files: openVerifiedFiles(archive, context.settings.service.cacheBytesMax),
    });
    const url = await app.listen({ host, port }).catch(async (error: NodeJS.ErrnoException) => {
      // Timers and threads of the service would keep the process alive.
      await app.close();
      throw createListenError('service.port', port, host, error);
    });
    if (!(await workspace.hasGoodKey(context.clock.nowMs())))
      context.log.warn(
        {},
        'there is no valid key; create one with oddslake keys create --name NAME and the same settings',
      );
    return {
      url,
      docs: `${url}${paths.documentation}`,
      isPublic: isCataloguePublic(context.settings.service),
      // In the fragment, which browsers send to nobody.
      createSignInLink: () => `${url}/#sign-in=${sessions.createOneTimeKey()}`,
      async stop() {
        await stopService(app, context.clock, serviceLimits.shutdownMsMax);
        await closeAll();
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** Opens the live reads if they are on. Their modules are loaded only then. */
async function openConfiguredLiveReads(context: Context, archive: Archive): Promise<LiveReads | null> {
  if (!context.settings.service.live.enabled) return null;
  const { openLiveReads } = await import('./live/live-reads.ts');
  return openLiveReads(context, archive);
}
