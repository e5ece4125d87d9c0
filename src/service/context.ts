import type { Archive } from '../archive/open-archive.ts';
import type { Clock, Random } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { VerifiedFiles } from '../reading/files/verified-files.ts';
import type { ManifestWatcher } from '../reading/manifest-watcher.ts';
import type { Settings } from '../settings/settings.ts';
import type { Workspace } from '../workspace/workspace.ts';

/** What the service gets from outside; routes are handed it as it is. */
export interface ServiceContext {
  readonly archive: Archive;
  readonly current: ManifestWatcher;
  readonly files: VerifiedFiles;
  readonly workspace: Workspace;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly version: string;
  /** Aborted when the service stops. */
  readonly signal: AbortSignal;
}
