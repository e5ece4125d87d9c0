/** Types of JSON; whole numbers are numbers like others. */
export const jsonTypes = ['null', 'boolean', 'number', 'string', 'array', 'object'] as const;

export type JsonType = (typeof jsonTypes)[number];

/** How often a field was met, and as what. */
export interface FieldShape {
  /** How many objects or lists there were that could have it. */
  readonly of: number;
  /** Of them, how many had it as each type. One that stands there with 0 was met before. */
  readonly types: Readonly<Partial<Record<JsonType, number>>>;
  /** Whether its members have names of their own each, as an object by symbol has: they are no fields. */
  readonly isMap: boolean;
}

/** Fields by their paths: `` is the record itself, `a/b` a field of a field, `*` every element of a list. */
export type Shape = ReadonlyMap<string, FieldShape>;

export interface ShapeSample {
  /** Takes one record: any JSON value. */
  add(record: unknown): void;
  /** What was met; null where it was too much to say anything of it. */
  inferShape(): Shape | null;
}

/** Fields are looked for so many steps below the record. */
const depthMax = 5;
/** An object with more different names than this is a map. */
const namesMax = 64;
const fieldsMax = 2000;
const nameCharsMax = 100;
/** Elements of one list that are looked at, spread evenly over it. */
const elementsMax = 16;

interface FieldCounts {
  of: number;
  readonly types: Partial<Record<JsonType, number>>;
  /** Fields below it. */
  readonly names: Set<string>;
  isMap: boolean;
}

/** Gathers what records look like: bounded in memory however many there are, and whatever they are. */
export function createShapeSample(): ShapeSample {
  const fields = new Map<string, FieldCounts>();
  let tooMany = false;

  function countsOf(path: string): FieldCounts | undefined {
    const known = fields.get(path);
    if (known !== undefined) return known;
    if (fields.size >= fieldsMax) {
      tooMany = true;
      return undefined;
    }
    const counts = { of: 0, types: {}, names: new Set<string>(), isMap: false };
    fields.set(path, counts);
    return counts;
  }

  function look(value: unknown, path: string, depth: number): void {
    const counts = countsOf(path);
    if (counts === undefined) return;
    const type = toJsonType(value);
    counts.types[type] = (counts.types[type] ?? 0) + 1;
    if (depth === depthMax) return;
    if (type === 'array')
      for (const item of sampleElements(value as unknown[])) look(item, toChildPath(path, '*'), depth + 1);
    if (type === 'object') lookInto(value as Record<string, unknown>, counts, path, depth);
  }

  function lookInto(value: Record<string, unknown>, counts: FieldCounts, path: string, depth: number): void {
    for (const key in value) {
      if (counts.isMap) return;
      const name = key.slice(0, nameCharsMax).replaceAll('/', '~1').replace(/^\*?$/, '~$&');
      counts.names.add(name);
      if (counts.names.size > namesMax) {
        counts.isMap = true;
        const start = toChildPath(path, '');
        for (const field of fields.keys()) if (field !== path && field.startsWith(start)) fields.delete(field);
        return;
      }
      look(value[key], toChildPath(path, name), depth + 1);
    }
  }

  return {
    add: (record) => look(record, '', 0),
    inferShape() {
      if (tooMany) return null;
      const out = new Map<string, FieldShape>();
      for (const [path, { types, isMap }] of fields) {
        const parent = fields.get(toParentPath(path));
        const of = path === '' || isElementPath(path) ? sumTypeCounts(types) : (parent?.types.object ?? 0);
        out.set(path, { of, types, isMap });
      }
      return out;
    },
  };
}

export const sumTypeCounts = (types: FieldShape['types']): number =>
  Object.values(types).reduce((sum, count) => sum + count, 0);

/** Whether a path stands for the elements of a list. */
export const isElementPath = (path: string): boolean => path === '*' || path.endsWith('/*');

/** The path of what holds a field; that of the record is its own. */
export const toParentPath = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));

const toChildPath = (path: string, name: string): string => (path === '' ? name : `${path}/${name}`);

function toJsonType(value: unknown): JsonType {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  const type = typeof value;
  return type === 'boolean' || type === 'number' || type === 'string' ? type : 'object';
}

function sampleElements(list: readonly unknown[]): readonly unknown[] {
  if (list.length <= elementsMax) return list;
  return Array.from({ length: elementsMax }, (_, i) => list[Math.floor((i * (list.length - 1)) / (elementsMax - 1))]);
}
