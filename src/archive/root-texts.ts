import { checksumsText, type Manifest } from './manifest.ts';
import { readmeText } from './readme.ts';
import { viewsText } from './views-file.ts';

/** The texts at the archive's root beside manifest.json, by name: all of them follow from the manifest. */
export const rootTexts = (manifest: Manifest): Readonly<Record<string, string>> => ({
  SHA256SUMS: checksumsText(manifest),
  'README.md': readmeText(manifest),
  'views.sql': viewsText(manifest),
});
