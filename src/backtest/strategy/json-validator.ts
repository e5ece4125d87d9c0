/** A fault of a field, such as `rules[0].entry.all[1].below`; '' for the whole input. */
export interface Fault {
  readonly name: string;
  readonly reason: string;
}

/** Minimum and maximum, both included. */
export interface NumberRange {
  readonly min: number;
  readonly max: number;
}

export const finiteRange: NumberRange = { min: -Number.MAX_VALUE, max: Number.MAX_VALUE };

/** Maximum number of reported faults. */
const faultsMax = 50;

/** Validates untrusted JSON. Continues after a fault, so that all faults are reported. */
export class JsonValidator {
  readonly faults: Fault[] = [];

  /** Reports only the first fault of a field, because the other faults are usually consequences of it. */
  fault(name: string, reason: string): void {
    if (this.faults.length >= faultsMax || this.faults.some((fault) => fault.name === name)) return;
    this.faults.push({ name, reason });
  }

  path(at: string, name: string): string {
    return at === '' ? name : `${at}.${name}`;
  }

  /** Returns the members of an object. With `fields`, checks for missing and unknown members. */
  object(
    json: unknown,
    at: string,
    fields?: { readonly required: readonly string[]; readonly optional: readonly string[] },
  ): Record<string, unknown> {
    if (typeof json !== 'object' || json === null || Array.isArray(json)) {
      this.fault(at, json === undefined ? 'is missing' : 'must be an object');
      return {};
    }
    const { required, optional } = fields ?? { required: [], optional: null };
    for (const name of required) if (!Object.hasOwn(json, name)) this.fault(this.path(at, name), 'is missing');
    if (optional !== null) {
      for (const name of Object.keys(json))
        if (!required.includes(name) && !optional.includes(name))
          this.fault(this.path(at, name), `is unknown: expected one of ${[...required, ...optional].join(', ')}`);
    }
    return json as Record<string, unknown>;
  }

  list(json: unknown, at: string, { min, max }: NumberRange): unknown[] {
    if (!Array.isArray(json)) {
      if (json !== undefined) this.fault(at, 'must be a list');
      return [];
    }
    if (json.length < min || json.length > max) this.fault(at, `must have ${min} to ${max} members`);
    return json.slice(0, max);
  }

  /** Returns 0 for an invalid number. */
  number(json: unknown, at: string, { min, max }: NumberRange): number {
    if (typeof json !== 'number' || !Number.isFinite(json)) this.fault(at, 'must be a number');
    else if (json < min || json > max) this.fault(at, `must be from ${min} to ${max}`);
    // -0 becomes 0, as in JSON output.
    else return json === 0 ? 0 : json;
    return 0;
  }

  /** Returns 0 for an invalid number. */
  integer(json: unknown, at: string, range: NumberRange): number {
    const value = this.number(json, at, range);
    if (!Number.isInteger(value)) this.fault(at, 'must be a whole number');
    return value;
  }

  /** Returns false for an invalid value. */
  boolean(json: unknown, at: string): boolean {
    if (typeof json !== 'boolean') this.fault(at, 'must be true or false');
    return json === true;
  }

  text(json: unknown, at: string, lengthMax: number): string {
    if (typeof json === 'string' && json.isWellFormed() && json.length >= 1 && json.length <= lengthMax) return json;
    this.fault(at, `must be a string of 1 to ${lengthMax} characters`);
    return '';
  }

  oneOf<T extends string>(json: unknown, at: string, values: readonly T[]): T {
    const found = values.find((value) => value === json);
    if (found !== undefined) return found;
    if (json !== undefined) this.fault(at, `must be one of ${values.join(', ')}`);
    return values[0]!;
  }
}
