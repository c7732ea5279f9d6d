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
