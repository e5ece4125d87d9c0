import type { Archive } from '../archive/open-archive.ts';
import { watchManifest } from '../archive/read/manifest-watcher.ts';
import { openVerifiedFiles } from '../archive/read/verified-files.ts';
import { createListenError } from '../collector/run/error-message.ts';
import type { Context } from '../context/context.ts';
import { paths } from '../contract/paths.ts';
import { serviceLimits, stopService } from './http/connection-limits.ts';
import { openConfiguredWorkspace } from './open-workspace.ts';
import { createService } from './server.ts';

export interface RunningService {
  /** Where it listens, e.g. http://127.0.0.1:8080 */
  readonly url: string;
  /** The documentation page. */
  readonly docs: string;
  /** Lets what is under way come to its end, and stops. */
  stop(): Promise<void>;
}

/** Starts the service over an archive, which stays open until it is stopped. */
export async function startService(context: Context, archive: Archive): Promise<RunningService> {
  const { host, port } = context.settings.service;
  const workspace = await openConfiguredWorkspace(context, archive);
  try {
    const app = await createService({
      ...context,
      archive,
      workspace,
      current: watchManifest(archive),
      files: openVerifiedFiles(archive, context.settings.service.cacheBytesMax),
    });
    const url = await app.listen({ host, port }).catch(async (error: NodeJS.ErrnoException) => {
      // What was begun for requests would keep the process.
      await app.close();
      throw createListenError('service.port', port, host, error);
    });
    if (!(await workspace.hasGoodKey(context.clock.nowMs())))
      context.log.warn({}, 'nobody has a key yet: oddslake keys create --name NAME makes one, with the same settings');
    return {
      url,
      docs: `${url}${paths.documentation}`,
      async stop() {
        await stopService(app, context.clock, serviceLimits.shutdownMsMax);
        await workspace.close();
      },
    };
  } catch (error) {
    await workspace.close();
    throw error;
  }
}
