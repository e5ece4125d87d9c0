import type { QualifyName } from '../../archive/format/qualify-market.ts';
import { UsageError } from '../../base/errors.ts';
import { createQualifier } from '../../base/source-name.ts';
import { requireKnownSources } from '../../context/open-configured.ts';
import type { Run } from '../run/run.ts';
import type { ImportFile } from './files.ts';

interface ImportSource {
  /** Null: the only service of the archive, or raw responses, which name their own. */
  readonly source: string | null;
  /** Qualifies a symbol with it, unless it is qualified already; undefined: symbols stay as they are. */
  readonly qualify: QualifyName | undefined;
}

/**
 * Chooses the source of the files of an import into an archive of several sources.
 * @throws UsageError if it is not clear
 */
export function chooseImportSource({ archive, context }: Run, files: readonly ImportFile[]): ImportSource {
  requireKnownSources(archive, context);
  const { sources = [] } = context;
  const names = archive.state.identity.sources.map(({ name }) => name);
  if (sources.length > 1)
    throw new UsageError(
      `--source: an import has one source, and ${sources.join(', ')} are given. Import the files of each by itself.`,
    );
  if (names.length > 0 && sources.length === 0 && files.some(({ format }) => format !== 'raw'))
    throw new UsageError(
      `The archive at ${archive.layout.root} has the sources ${names.join(', ')}: name that of the files with --source. It qualifies their symbols, unless they are qualified already.`,
    );
  const source = sources[0] ?? null;
  return { source, qualify: source === null ? undefined : createQualifier(source, names) };
}
