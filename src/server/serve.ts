import type { Archive } from '../archive/open-archive.ts';
import { watchManifest } from '../archive/read/manifest-watcher.ts';
import { openVerifiedFiles } from '../archive/read/verified-files.ts';
import { createListenError } from '../collector/run/error-message.ts';
import type { Context } from '../context/context.ts';
import { paths } from '../contract/paths.ts';
import { serviceLimits, stopService } from './http/connection-limits.ts';
import type { LiveReads } from './http/live-reads.ts';
import { openConfiguredWorkspace } from './open-workspace.ts';
import { createService } from './server.ts';

export interface RunningService {
  /** Base URL, such as http://127.0.0.1:8080 */
  readonly url: string;
  /** URL of the documentation page. */
  readonly docs: string;
  /** Waits for running requests, and stops. */
  stop(): Promise<void>;
}

/** Starts the service for an archive, which must stay open until the service has stopped. */
export async function startService(context: Context, archive: Archive): Promise<RunningService> {
  const { host, port } = context.settings.service;
  const workspace = await openConfiguredWorkspace(context, archive);
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
  const { openLiveReads } = await import('./live/live-sources.ts');
  return openLiveReads(context, archive);
}
