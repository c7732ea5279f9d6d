import fc from 'fast-check';

/** One of the arbitraries, each as often as its weight says. */
export function weighted<T>(...options: [weight: number, arbitrary: fc.Arbitrary<T>][]): fc.Arbitrary<T> {
  return fc.oneof(...options.map(([weight, arbitrary]) => ({ weight, arbitrary })));
}

/** The value in so many of a hundred cases, undefined in the others. */
export function maybe<T>(percent: number, arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return weighted<T | undefined>([100 - percent, fc.constant(undefined)], [percent, arbitrary]);
}

/** One item of the list. Throws when it is empty. */
export function oneOf<T>(list: readonly T[]): fc.Arbitrary<T> {
  if (list.length === 0) throw new Error('nothing to choose from');
  return fc.nat({ max: list.length - 1 }).map((index) => list[index] as T);
}

/** A record without those fields that came out undefined, as YAML writes an absent field. */
export function fields<T extends object>(
  model: {
    [K in keyof T]-?: fc.Arbitrary<T[K] | undefined>;
  },
): fc.Arbitrary<T> {
  const record: fc.Arbitrary<object> = fc.record(model as Record<string, fc.Arbitrary<unknown>>);
  return record.map((value) => withoutUndefined(value) as T);
}

/** The object without its undefined fields. */
export function withoutUndefined(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined));
}

/** The forms of the language that can be left out; everything else is always drawn. */
export const ALL_FEATURES = [
  'group',
  'appliedToGroup',
  'pass',
  'toServices',
  'fqdn',
  'interfaceGroup',
  'audit',
  'nodePort',
  'logging',
] as const;

/** One form of the language. */
export type Feature = (typeof ALL_FEATURES)[number];

/** What the program can do so far: the default. */
export const CURRENT_FEATURES: readonly Feature[] = ALL_FEATURES;
