import { formatPath } from '../validate/problem.ts';
import { asFields, type FieldMap } from './json-schema.ts';

/**
 * The form of messages and files that others wrote; the type of their values follows from it. Nodes
 * may be compromised: each text and list has a bound, unless the size of the message is enough.
 *
 * A shape consists of functions, not of data as the schemas of CustomResourceDefinitions do: the
 * checker of those (json-schema.ts) takes two to four times as long for a report.
 */
export interface Shape<out T> {
  /** Names valid values, after `must be`. */
  readonly wanted: string;
  /** Whether a value conforms, whatever fields it has besides. */
  readonly accepts: (value: unknown) => value is T;
  /** Makes what is decoded of a value that conforms; absent: it is the value itself. */
  readonly known?: (value: unknown) => unknown;
  /** The parts of a value, for messages about them. */
  readonly parts?: (value: unknown) => Iterable<Part>;
}

type Part = readonly [key: string | number, shape: Shape<unknown>, value: unknown];

/** The type of a shape's values. */
export type Of<S> = S extends Shape<infer T> ? T : never;

/** A message that is not valid; its text says what must be. */
export class InvalidError extends Error {
  override readonly name = 'InvalidError';
}

/**
 * The known fields of a value: its sender may be newer, so others are left out. Throws
 * InvalidError.
 *
 * @param title comes before the problems
 */
export function decode<T>(shape: Shape<T>, value: unknown, title?: string): T {
  return known(shape, checked(shape, value, title)) as T;
}

/** The value itself, with the fields that are not known. Throws InvalidError. */
export function checked<T>(shape: Shape<T>, value: unknown, title?: string): T {
  if (shape.accepts(value)) return value;
  const problems: string[] = [];
  explain(shape, value, [], problems);
  throw new InvalidError(`${title === undefined ? '' : `${title}: `}${problems.join('; ')}`);
}

/** More problems than these are not worth the sender's time, nor ours. */
const MOST_PROBLEMS = 10;

function explain(shape: Shape<unknown>, value: unknown, path: (string | number)[], problems: string[]): void {
  if (shape.accepts(value)) return;
  const before = problems.length;
  for (const [key, part, of] of shape.parts?.(value) ?? []) {
    path.push(key);
    explain(part, of, path, problems);
    path.pop();
    if (problems.length >= MOST_PROBLEMS) return;
  }
  if (problems.length > before) return;
  problems.push(`${path.length === 0 ? '' : `${formatPath(path)}: `}must be ${shape.wanted}`);
}

function known(shape: Shape<unknown>, value: unknown): unknown {
  return shape.known === undefined || value === undefined ? value : shape.known(value);
}

/** A shape whose values `test` alone knows. */
export function shape<T>(wanted: string, test: (value: unknown) => boolean): Shape<T> {
  return { wanted, accepts: test as Shape<T>['accepts'] };
}

type Shapes = Readonly<Record<string, Shape<unknown>>>;
type Values<S extends Shapes> = { readonly [K in keyof S]: Of<S[K]> };
type Flat<T> = { readonly [K in keyof T]: T[K] };

/** An object with these fields, and perhaps the others. */
export function object<R extends Shapes>(required: R): Shape<Flat<Values<R>>>;
export function object<R extends Shapes, O extends Shapes>(
  required: R,
  optional: O,
): Shape<Flat<Values<R> & Partial<Values<O>>>>;
export function object(required: Shapes, optional: Shapes = {}): Shape<object> {
  return objectOf(required, optional, false);
}

/** An object with these fields alone. */
export function closed<R extends Shapes>(required: R): Shape<Flat<Values<R>>>;
export function closed<R extends Shapes, O extends Shapes>(
  required: R,
  optional: O,
): Shape<Flat<Values<R> & Partial<Values<O>>>>;
export function closed(required: Shapes, optional: Shapes = {}): Shape<object> {
  return objectOf(required, optional, true);
}

const NOTHING = shape<never>('absent', () => false);

function objectOf(required: Shapes, optional: Shapes, isClosed: boolean): Shape<object> {
  const shapes = { ...required, ...optional };
  const names = Object.keys(shapes);
  const byName = new Map(Object.entries(shapes));
  const tests = Object.values(shapes).map(({ accepts }) => accepts);
  const count = Object.keys(required).length;
  return {
    ...shape<object>('an object with fields', (value) => {
      const fields = asFields(value);
      if (fields === null) return false;
      for (let i = 0; i < names.length; i++) {
        const field = fields[names[i] as string];
        if (field === undefined ? i < count : tests[i]?.(field) !== true) return false;
      }
      return !isClosed || Object.keys(fields).every((name) => byName.has(name));
    }),
    known(value) {
      const found: Record<string, unknown> = {};
      for (const name of Object.keys(value as FieldMap)) {
        const of = byName.get(name);
        const part = of === undefined ? undefined : known(of, (value as FieldMap)[name]);
        if (part !== undefined) found[name] = part;
      }
      return found;
    },
    *parts(value) {
      const fields = asFields(value);
      if (fields === null) return;
      for (const [name, of] of byName)
        if (fields[name] !== undefined || Object.hasOwn(required, name)) yield [name, of, fields[name]];
      if (!isClosed) return;
      for (const [name, field] of Object.entries(fields)) if (!byName.has(name)) yield [name, NOTHING, field];
    },
  };
}

/** An object with any keys. */
export function mapOf<T>(of: Shape<T>): Shape<Readonly<Record<string, T>>> {
  return {
    ...shape<Readonly<Record<string, T>>>('an object with fields', (value) => {
      const fields = asFields(value);
      return fields !== null && Object.values(fields).every((one) => of.accepts(one));
    }),
    *parts(value) {
      for (const [key, one] of Object.entries(asFields(value) ?? {})) yield [key, of, one];
    },
  };
}

/** A list of at most so many items. */
export function list<T>(of: Shape<T>, most = Number.POSITIVE_INFINITY): Shape<readonly T[]> {
  const wanted = most === Number.POSITIVE_INFINITY ? 'a list' : `a list of no more than ${most}`;
  const { accepts } = of;
  return {
    ...shape<readonly T[]>(wanted, (value) => {
      if (!Array.isArray(value) || value.length > most) return false;
      for (let i = 0; i < value.length; i++) if (!accepts(value[i])) return false;
      return true;
    }),
    ...(of.known === undefined
      ? {}
      : { known: (value: unknown) => (value as readonly T[]).map((one) => known(of, one)) }),
    *parts(value) {
      if (!Array.isArray(value) || value.length > most) return;
      for (const [i, one] of value.entries()) yield [i, of, one];
    },
  };
}

/** A list whose items mean something by their place; a newer one may be longer. */
export function tuple<const S extends readonly Shape<unknown>[]>(
  ...items: S
): Shape<{ readonly [K in keyof S]: Of<S[K]> }> {
  const tests = items.map(({ accepts }) => accepts);
  const hasLength = (value: unknown): value is unknown[] =>
    Array.isArray(value) && value.length >= items.length;
  return {
    ...shape<{ readonly [K in keyof S]: Of<S[K]> }>(`a list of ${items.length} items`, (value) => {
      if (!hasLength(value)) return false;
      for (let i = 0; i < tests.length; i++) if (tests[i]?.(value[i]) !== true) return false;
      return true;
    }),
    known: (value) => items.map((of, i) => known(of, (value as unknown[])[i])),
    *parts(value) {
      if (hasLength(value)) for (const [i, of] of items.entries()) yield [i, of, value[i]];
    },
  };
}

/** The first shape that fits is decoded. */
export function either<const S extends readonly Shape<unknown>[]>(
  wanted: string,
  ...shapes: S
): Shape<Of<S[number]>> {
  const find = (value: unknown) => shapes.find((one) => one.accepts(value));
  return {
    ...shape<Of<S[number]>>(wanted, (value) => shapes.some((one) => one.accepts(value))),
    known(value) {
      const of = find(value);
      return of === undefined ? value : known(of, value);
    },
  };
}

export function nullable<T>(of: Shape<T>): Shape<T | null> {
  return {
    ...of,
    wanted: `${of.wanted}, or null`,
    accepts: (value): value is T | null => value === null || of.accepts(value),
    ...(of.known === undefined
      ? {}
      : { known: (value: unknown) => (value === null ? null : known(of, value)) }),
  };
}

export function oneOf<const W extends string>(...words: readonly W[]): Shape<W> {
  return shape(words.join(' or '), (value) => words.includes(value as W));
}

/** At most so many UTF-16 code units. */
export function text(longest = Number.POSITIVE_INFINITY): Shape<string> {
  const wanted = longest === Number.POSITIVE_INFINITY ? 'text' : `text of at most ${longest} characters`;
  return shape(wanted, (value) => typeof value === 'string' && value.length <= longest);
}

/** Printable ASCII without blanks. */
export function word(longest: number, shortest = 0): Shape<string> {
  const wanted = `a word of ${shortest === 0 ? 'at most' : `${shortest} to`} ${longest} characters`;
  return shape(wanted, (value) => {
    if (typeof value !== 'string' || value.length < shortest || value.length > longest) return false;
    return /^[!-~]*$/.test(value);
  });
}

export function number(least: number, most = Number.MAX_SAFE_INTEGER): Shape<number> {
  return shape(`a number from ${least} to ${most}`, (value) => {
    return typeof value === 'number' && value >= least && value <= most;
  });
}

export function integer(least: number, most = Number.MAX_SAFE_INTEGER): Shape<number> {
  return shape(`a whole number from ${least} to ${most}`, (value) => {
    return typeof value === 'number' && value >= least && value <= most && Number.isInteger(value);
  });
}

/** A whole number that can be added up. */
export const COUNT = integer(0);
export const BOOLEAN: Shape<boolean> = shape('true or false', (value) => typeof value === 'boolean');
/** True, or left out, whatever else it is. */
export const FLAG: Shape<true> = {
  ...shape<true>('true, or absent', () => true),
  known: (value) => (value === true ? true : undefined),
};
/** As Date.toISOString has it, with any part of a second. Date.parse reads each such text. */
export const TIME = where(text(40), 'a time (ISO 8601, UTC)', (one) => {
  const date = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T/;
  return date.test(one) && /T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?Z$/.test(one);
});

/** Values of a shape for which `test` holds, too: these are `wanted`. */
export function where<T>(of: Shape<T>, wanted: string, test: (value: T) => boolean): Shape<T> {
  return { ...of, wanted, accepts: (value): value is T => of.accepts(value) && test(value) };
}

/** Values of a shape, of which `change` makes what is decoded. */
export function changed<T>(of: Shape<T>, change: (value: T) => T): Shape<T> {
  return { ...of, known: (value) => change(value as T) };
}
