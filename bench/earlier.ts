import { execFileSync } from 'node:child_process';
import type { EarlierResults } from './changes.ts';
import { findSection } from './results.ts';

/** Commits that are searched for the one that wrote a section. */
const commitsMax = 50;

/**
 * The results of a benchmark in the last commit, with the commit that wrote them; null without Git, or if that commit has
 * none.
 * @param path of the results, relative to `root`
 */
export function findEarlier(root: string, path: string, name: string): EarlierResults | null {
  const git = (...args: readonly string[]): string =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const commits = git('log', `-${commitsMax}`, '--format=%h %cs', '--', path).trim().split('\n');
    let found: EarlierResults | null = null;
    for (const commit of commits) {
      const [hash, date] = commit.split(' ') as [string, string];
      const section = findSection(git('show', `${hash}:${path}`), name);
      if (section === undefined || (found !== null && section !== found.section)) break;
      found = { commit: `${hash} (${date})`, section };
    }
    return found;
  } catch {
    return null;
  }
}
