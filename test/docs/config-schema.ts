import { sourceNameRule } from '../../src/base/source-name.ts';
import { describeExpected, sourceSettings } from '../../src/settings/layers.ts';
import { type LeafSchema, type SectionSchema, settingsSchema } from '../../src/settings/setting-table.ts';
import type { parseComments } from './yaml-comments.ts';

// config/schema.json: the JSON Schema of a config file, for editors. Types, bounds and defaults from src/settings/setting-table.ts,
// meanings from config/default.yaml. Draft 7, which every editor supports.

type Comments = ReturnType<typeof parseComments>;
interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** The schema of a config file. */
export const buildConfigSchema = (comments: Comments): JsonSchema => ({
  $schema: 'http://json-schema.org/draft-07/schema#',
  title: 'Config file of oddslake',
  // All settings may be commented out.
  type: ['object', 'null'],
  additionalProperties: false,
  properties: {
    ...buildProperties(settingsSchema, '', comments),
    sources: {
      description: comments.sections.get('sources'),
      type: ['object', 'null'],
      propertyNames: { pattern: '^(?!file(-|$))[a-z0-9-]{1,32}$', description: sourceNameRule },
      additionalProperties: buildSourceSection(comments),
    },
  },
});

const buildProperties = (section: SectionSchema, prefix: string, comments: Comments): JsonSchema =>
  Object.fromEntries(
    Object.entries(section.properties).map(([key, schema]) => [key, buildProperty(schema, prefix + key, comments)]),
  );

function buildProperty(schema: SectionSchema | LeafSchema, path: string, comments: Comments): JsonSchema {
  if ('properties' in schema)
    return {
      description: comments.sections.get(path) || undefined,
      // A section whose settings are all commented out.
      type: ['object', 'null'],
      additionalProperties: false,
      properties: buildProperties(schema, `${path}.`, comments),
    };
  const {
    default: byDefault,
    isCommon: _c,
    isOfArchive: _a,
    isSecret: _s,
    kind: _k,
    variable: _v,
    ...accepted
  } = schema;
  const description = `${comments.settings.get(path)!.says} Expected: ${describeExpected(schema)}.`;
  return { description, ...accepted, default: byDefault };
}

/** The section of one source: settings of `upstream` and `source`. */
function buildSourceSection(comments: Comments): JsonSchema {
  const own: Record<string, JsonSchema> = {};
  for (const [key, path] of sourceSettings) {
    const [section, top] = path.split('.') as ['upstream' | 'source', string];
    if (key.split('.')[0] !== top) throw new Error(`unexpected path ${path}`);
    const schema = (settingsSchema.properties[section].properties as SectionSchema['properties'])[top]!;
    own[top] = buildProperty(schema, `${section}.${top}`, comments);
  }
  return { type: ['object', 'null'], additionalProperties: false, properties: own };
}
