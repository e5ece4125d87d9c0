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

/** What became of a field from one poll to the next. */
export interface Drift {
  readonly field: string;
  readonly change: 'vanished' | 'appeared' | 'retyped';
  /** Types that it had; none where it was not there. */
  readonly before: readonly JsonType[];
  readonly now: readonly JsonType[];
}

/** Fewer say nothing: what is missing of them may be missing by chance. */
export const recordsMin = 5;
/** A field that so many have is one that all should have. */
const usualShareMin = 0.9;
/** Values of another type than known are no odd ones any more when they are so many of all. */
const newTypeShareMin = 0.1;

export interface ShapeComparison {
  readonly drifts: readonly Drift[];
  /** What is known from now on: each drift is told once. */
  readonly known: Shape;
}

/**
 * Compares what records look like with what they looked like before. Ordinary data is no drift: a field that some records
 * lack, that is null now and then, or that few have yet. So a field has vanished only where none of at least
 * `recordsMin` records has it though nearly all had it before, and has appeared where it is the other way round;
 * one that is null everywhere has become null. A new type counts where a good part of the values have it.
 */
export function compareShapes(known: Shape, now: Shape): ShapeComparison {
  const drifts: Drift[] = [];
  const next = new Map<string, FieldShape>();
  for (const field of [...new Set([...known.keys(), ...now.keys()])].sort()) {
    if (isInMap(field, known) || isInMap(field, now)) continue;
    const before = known.get(field) ?? createAbsentField(known, field);
    const after = now.get(field) ?? createAbsentField(now, field);
    const found = field === '' ? detectRetype(before, after) : classifyChange(before, after);
    if (found !== null) drifts.push({ field, change: found, before: listTypes(before), now: listTypes(after) });
    next.set(field, after.of < recordsMin && known.has(field) ? before : updateKnownField(before, after, found));
  }
  return { drifts, known: next };
}

/** A field that was not met where it could have been. */
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
  const [had, has] = [countValues(before), countValues(after)];
  if (had >= usualShareMin * before.of && has === 0) return sumTypeCounts(after.types) === 0 ? 'vanished' : 'retyped';
  if (had === 0 && has >= usualShareMin * after.of) return sumTypeCounts(before.types) === 0 ? 'appeared' : 'retyped';
  return detectRetype(before, after);
}

function detectRetype(before: FieldShape, after: FieldShape): 'retyped' | null {
  if (countValues(before) < recordsMin || countValues(after) < recordsMin) return null;
  return findNewTypes(before, after).length > 0 ? 'retyped' : null;
}

/** Types that a field never had and a good part of its values has now. */
const findNewTypes = (before: FieldShape, after: FieldShape): JsonType[] =>
  listValueTypes(after).filter(
    (type) => before.types[type] === undefined && after.types[type]! >= newTypeShareMin * countValues(after),
  );

/**
 * What is known of a field afterwards: how often it was met now, and its types. A type that was too rare to be told of
 * is not learned where the others are well known, so that it is told of when it is rare no more.
 */
function updateKnownField(before: FieldShape, after: FieldShape, found: Drift['change'] | null): FieldShape {
  const isWellKnown = countValues(before) >= recordsMin;
  const isNewAltogether = found !== null && listValueTypes(after).every((type) => before.types[type] === undefined);
  const types: Partial<Record<JsonType, number>> = {};
  for (const type of jsonTypes) {
    const [had, has] = [before.types[type], after.types[type]];
    const isRare = isWellKnown && had === undefined && !findNewTypes(before, after).includes(type);
    if (type === 'null' ? has !== undefined : has !== undefined && !isRare) types[type] = has!;
    else if (type !== 'null' && had !== undefined && !isNewAltogether) types[type] = 0;
  }
  return { of: after.of, types, isMap: before.isMap || after.isMap };
}

const listValueTypes = ({ types }: FieldShape): JsonType[] =>
  jsonTypes.filter((type) => type !== 'null' && (types[type] ?? 0) > 0);

/** Values that are not null. */
const countValues = ({ types }: FieldShape): number => sumTypeCounts(types) - (types.null ?? 0);

const listTypes = ({ types }: FieldShape): JsonType[] => jsonTypes.filter((type) => (types[type] ?? 0) > 0);

/** What became of the fields of a resource, in one sentence. */
export function formatDrift(resource: string, drifts: readonly Drift[]): string {
  const named = drifts.slice(0, namedMax).map(({ field, change, before, now }) => {
    if (change === 'vanished') return `${field} is gone`;
    if (change === 'appeared') return `${field} is new (${now.join(' or ')})`;
    return `${field === '' ? 'a whole record' : field} was ${before.join(' or ') || 'null'} and is ${now.join(' or ')}`;
  });
  const more = drifts.length > namedMax ? `, and ${drifts.length - namedMax} fields more` : '';
  return `The service's answers changed their shape (${resource}): ${named.join(', ')}${more}.`;
}

const namedMax = 5;
