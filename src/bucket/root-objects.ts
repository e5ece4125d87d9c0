import type { DatasetName } from '../archive/format/datasets.ts';
import { formatDaysText, formatViewsFile, quoteSqlString } from '../archive/publish/views-sql.ts';
import type { RemoteManifest, StoredFile } from './bucket-manifest.ts';

// The texts at the root of a bucket besides the manifest.

const sequencePattern = /^-- Sequence (\d+)\b/;

/** The sequence of the manifest that a views.sql is of; 0 if it states none. */
export const parseViewsSequence = (text: string): number => Number(sequencePattern.exec(text)?.[1] ?? 0);

/** Formats views.sql: the views of the archive over the objects of one generation. */
export function formatRemoteViews(url: string, { manifest, bucket }: RemoteManifest): string {
  const toSql = (file: StoredFile): string => `\n  ${quoteSqlString(`${url}/${file.key}`)}`;
  return formatViewsFile(manifest, {
    intro: `-- Sequence ${bucket.sequence}, generation ${manifest.generation} of the archive at ${url}.
-- Views for DuckDB 1.5 or newer, over the objects of this generation. With credentials for the bucket:
--   INSTALL httpfs; CREATE SECRET (TYPE s3, PROVIDER credential_chain); .read views.sql
-- They keep working after later pushes, as long as the bucket keeps the objects. Read the file again for newer data.`,
    formatFiles: (name: DatasetName) => `[${(manifest.datasets[name].files as StoredFile[]).map(toSql).join(',')}]`,
    manifestText: formatDaysText(manifest),
  });
}

/** README.md of a bucket. It is written once. */
export const formatRemoteReadme = (url: string): string => `# An archive of oddslake in object storage

- \`manifest.json\` names the files of one generation: \`datasets.ticks.files[].key\` is the path below ${url}/.
- \`data/\` has the objects. They never change. Objects of other generations are among them: **do not read data/ with a
  pattern**, read the keys of the manifest.
- \`manifests/\` has earlier manifests. Their objects stay as long as the retention of \`oddslake push\` keeps them.
- \`views.sql\` has a view of each dataset for DuckDB.

\`\`\`python
import json
import polars as pl
from pyarrow import fs
s3, root = fs.FileSystem.from_uri("${url}")
manifest = json.loads(s3.open_input_file(f"{root}/manifest.json").read())  # if it raises ValueError: again
keys = [f"s3://{root}/{file['key']}" for file in manifest["datasets"]["ticks"]["files"]]
ticks = pl.scan_parquet(keys, hive_partitioning=True)
\`\`\`

\`oddslake pull ${url} DIR\` makes a local archive of it.
`;
