/** JSON types. Integers are numbers. */
const jsonTypes = ['null', 'boolean', 'number', 'string', 'array', 'object'] as const;

export type JsonType = (typeof jsonTypes)[number];

/** How often a field was seen, by type. */
export interface FieldShape {
  /** How many objects or lists could have had it. */
  readonly of: number;
  /** How many had it, by type. A type with a count of 0 was seen only earlier. */
  readonly types: Readonly<Partial<Record<JsonType, number>>>;
  /** Whether its members have individual names, as in an object keyed by symbol. They are not fields. */
  readonly isMap: boolean;
}

/** Fields by path: `` is the record itself, `a/b` a nested field, `*` every element of a list. */
export type Shape = ReadonlyMap<string, FieldShape>;

export interface ShapeSample {
  /** Adds one record: any JSON value. */
  add(record: unknown): void;
  /** Returns the shape; null if there were too many fields. */
  inferShape(): Shape | null;
}

/** Maximum depth of fields below the record. */
const depthMax = 5;
/** An object with more different names is a map. */
const namesMax = 64;
const fieldsMax = 2000;
const nameCharsMax = 100;
/** Maximum number of elements sampled from a list, evenly distributed. */
const elementsMax = 16;

interface FieldCounts {
  of: number;
  readonly types: Partial<Record<JsonType, number>>;
  /** Names of its child fields. */
  readonly names: Set<string>;
  isMap: boolean;
}

/** Samples the shape of records. Memory is bounded for any number and kind of records. */
export function createShapeSample(): ShapeSample {
  const fields = new Map<string, FieldCounts>();
  let isTooLarge = false;

  function countsOf(path: string): FieldCounts | undefined {
    const known = fields.get(path);
    if (known !== undefined) return known;
    if (fields.size >= fieldsMax) {
      isTooLarge = true;
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
      if (isTooLarge) return null;
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

const sumTypeCounts = (types: FieldShape['types']): number =>
  Object.values(types).reduce((sum, count) => sum + count, 0);

/** Whether a path refers to the elements of a list. */
const isElementPath = (path: string): boolean => path === '*' || path.endsWith('/*');

/** The path of a field's parent. The record is its own parent. */
const toParentPath = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));

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

/** A change of a field between polls. */
export interface Drift {
  readonly field: string;
  readonly change: 'vanished' | 'appeared' | 'retyped';
  /** Previous types; empty if the field did not exist. */
  readonly before: readonly JsonType[];
  readonly now: readonly JsonType[];
}

/** With fewer records, a field may be missing by chance. */
export const recordsMin = 5;
/** A field that at least this share of records has is expected in every record. */
const usualShareMin = 0.9;
/** A new type counts as a change if at least this share of values has it. */
const newTypeShareMin = 0.1;

interface ShapeComparison {
  readonly drifts: readonly Drift[];
  /** The shape to record as known, so that each drift is reported once. */
  readonly known: Shape;
}

/**
 * Compares the shape of records with the known one. Normal variation is not a drift: a field that some records do not
 * have, that is sometimes null, or that few have yet. A field has vanished only if none of at least `recordsMin`
 * records has it and nearly all had it before; it has appeared in the opposite case. A field that is now always null
 * was retyped. A new type counts if at least a tenth of the values have it.
 */
export function compareShapes(known: Shape, now: Shape): ShapeComparison {
  const drifts: Drift[] = [];
  const next = new Map<string, FieldShape>();
  for (const field of [...new Set([...known.keys(), ...now.keys()])].sort()) {
    if (isInMap(field, known) || isInMap(field, now)) continue;
    const before = known.get(field) ?? createAbsentField(known, field);
    const after = now.get(field) ?? createAbsentField(now, field);
    const change = field === '' ? detectRetype(before, after) : classifyChange(before, after);
    if (change !== null) drifts.push({ field, change, before: listTypes(before), now: listTypes(after) });
    next.set(field, after.of < recordsMin && known.has(field) ? before : updateKnownField(before, after, change));
  }
  return { drifts, known: next };
}

/** A field that was not seen, with the number of objects that could have had it. */
const createAbsentField = (shape: Shape, field: string): FieldShape => ({
  of: isElementPath(field) ? 0 : (shape.get(toParentPath(field))?.types.object ?? 0),
  types: {},
  isMap: false,
});

function isInMap(field: string, shape: Shape): boolean {
  for (let path = field; path !== ''; path = toParentPath(path))
    if (shape.get(toParentPath(path))?.isMap === true) return true;
  return false;
}

function classifyChange(before: FieldShape, after: FieldShape): Drift['change'] | null {
  if (before.of < recordsMin || after.of < recordsMin) return null;
  const [hadCount, hasCount] = [countValues(before), countValues(after)];
  if (hadCount >= usualShareMin * before.of && hasCount === 0)
    return sumTypeCounts(after.types) === 0 ? 'vanished' : 'retyped';
  if (hadCount === 0 && hasCount >= usualShareMin * after.of)
    return sumTypeCounts(before.types) === 0 ? 'appeared' : 'retyped';
  return detectRetype(before, after);
}

function detectRetype(before: FieldShape, after: FieldShape): 'retyped' | null {
  if (countValues(before) < recordsMin || countValues(after) < recordsMin) return null;
  return findNewTypes(before, after).length > 0 ? 'retyped' : null;
}

/** Finds types that a field never had and at least a tenth of its values now have. */
const findNewTypes = (before: FieldShape, after: FieldShape): JsonType[] =>
  listValueTypes(after).filter(
    (type) => before.types[type] === undefined && after.types[type]! >= newTypeShareMin * countValues(after),
  );

/**
 * Updates what is known of a field: the latest counts and its types. A type too rare to be reported is not added to a
 * well-known field, so that it is reported when it becomes common.
 */
function updateKnownField(before: FieldShape, after: FieldShape, change: Drift['change'] | null): FieldShape {
  const isWellKnown = countValues(before) >= recordsMin;
  const isNewAltogether = change !== null && listValueTypes(after).every((type) => before.types[type] === undefined);
  const types: Partial<Record<JsonType, number>> = {};
  for (const type of jsonTypes) {
    const [hadCount, hasCount] = [before.types[type], after.types[type]];
    const isRare = isWellKnown && hadCount === undefined && !findNewTypes(before, after).includes(type);
    if (type === 'null' ? hasCount !== undefined : hasCount !== undefined && !isRare) types[type] = hasCount!;
    else if (type !== 'null' && hadCount !== undefined && !isNewAltogether) types[type] = 0;
  }
  return { of: after.of, types, isMap: before.isMap || after.isMap };
}

const listValueTypes = ({ types }: FieldShape): JsonType[] =>
  jsonTypes.filter((type) => type !== 'null' && (types[type] ?? 0) > 0);

/** Counts the values that are not null. */
const countValues = ({ types }: FieldShape): number => sumTypeCounts(types) - (types.null ?? 0);

const listTypes = ({ types }: FieldShape): JsonType[] => jsonTypes.filter((type) => (types[type] ?? 0) > 0);

/** Describes the changed fields of a resource in one sentence. */
export function formatDrift(resource: string, drifts: readonly Drift[]): string {
  const descriptions = drifts.slice(0, namedMax).map(({ field, change, before, now }) => {
    if (change === 'vanished') return `${field} is missing`;
    if (change === 'appeared') return `${field} is new (${now.join(' or ')})`;
    return `${field === '' ? 'the record' : field} changed from ${before.join(' or ') || 'null'} to ${now.join(' or ')}`;
  });
  const suffix = drifts.length > namedMax ? `, and ${drifts.length - namedMax} more fields` : '';
  return `The upstream's responses changed (${resource}): ${descriptions.join(', ')}${suffix}.`;
}

const namedMax = 5;
