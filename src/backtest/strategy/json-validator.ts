/** What is wrong, and in which field: `rules[0].entry.all[1].below`, '' for the whole. */
export interface Fault {
  readonly name: string;
  readonly reason: string;
}

/** Of one input, faults beyond these say nothing new. */
const faultsMax = 50;

/** Reads JSON that comes from outside, going on after a fault so that all of them are told. */
export class JsonValidator {
  readonly faults: Fault[] = [];

  /** Of one field the first fault is told: the others mostly follow from it. */
  fault(name: string, reason: string): void {
    if (this.faults.length >= faultsMax || this.faults.some((fault) => fault.name === name)) return;
    this.faults.push({ name, reason });
  }

  path(at: string, name: string): string {
    return at === '' ? name : `${at}.${name}`;
  }

  /** The members of an object; with `fields` the required ones are there, and no others than those and the optional ones. */
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
          this.fault(this.path(at, name), `is none of ${[...required, ...optional].join(', ')}`);
    }
    return json as Record<string, unknown>;
  }

  list(json: unknown, at: string, { least, most }: { readonly least: number; readonly most: number }): unknown[] {
    if (!Array.isArray(json)) {
      if (json !== undefined) this.fault(at, 'must be a list');
      return [];
    }
    if (json.length < least || json.length > most) this.fault(at, `must have ${least} to ${most} members`);
    return json.slice(0, most);
  }

  /** Zero where it is none. */
  number(json: unknown, at: string, { least, most }: { readonly least: number; readonly most: number }): number {
    if (typeof json !== 'number' || !Number.isFinite(json)) this.fault(at, 'must be a number');
    else if (json < least || json > most) this.fault(at, `must be from ${least} to ${most}`);
    // -0 is 0, as it is once written.
    else return json === 0 ? 0 : json;
    return 0;
  }

  text(json: unknown, at: string, lengthMax: number): string {
    if (typeof json === 'string' && json.isWellFormed() && json.length >= 1 && json.length <= lengthMax) return json;
    this.fault(at, `must be a text of 1 to ${lengthMax} characters`);
    return '';
  }

  oneOf<T extends string>(json: unknown, at: string, values: readonly T[]): T {
    const found = values.find((value) => value === json);
    if (found !== undefined) return found;
    if (json !== undefined) this.fault(at, `must be one of ${values.join(', ')}`);
    return values[0]!;
  }
}
